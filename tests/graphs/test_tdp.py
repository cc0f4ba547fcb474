"""Tests of `graphs.tdp`."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.models.subtask_models import (
    KINDS,
    NEEDS,
    RecordedPrompt,
    Spoil,
    SubtaskModel,
    canary,
    facts_of,
    lookup_actions,
    outcomes,
    run_tdp,
)
from helpers.worlds.records_world import WHOLE, Records
from helpers.worlds.task_graphs import Jobs, SerialJobs, SlowModel, dag_of, respond, subtask_of
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite

from certigraph.adapters import episodes
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.graphs import sdp, subtask, tdp
from certigraph.graphs.assembly import operators_of
from certigraph.graphs.tdp import solve
from certigraph.nodes.gates import exhaustion_gate, judged_gate
from certigraph.nodes.react import execute
from certigraph.nodes.world import reset
from certigraph.runtime.registry import rebuild_graph
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume
from certigraph.state.endings import LimitReached
from certigraph.state.records import Action, Observation, Spent, Step
from certigraph.state.run import Evidence, NestedStart
from certigraph.state.tdp import Dag, Outcome, SolveView

# TDP's schedule on random task graphs: what runs when, in which world, and what of it depends on the clock.

Needs = dict[str, tuple[str, ...]]
Delay = Callable[[str], float]

ROOMY = Limits(nodes=300, steps=1_000, revisions=300)

TOGETHER = 5.0
"""Seconds within which all nodes of a batch must have begun."""


def random_graph(size: int, seed: int, share: float) -> Needs:
    """A task graph in which two nodes depend on each other with that chance, listed in any order."""
    chance = random.Random(seed)
    ids = [f"n{number}" for number in range(size)]
    needs = {id_: {before for before in ids[:place] if chance.random() < share} for place, id_ in enumerate(ids)}
    for place, id_ in enumerate(ids[:-1]):
        if not any(id_ in needs[later] for later in ids[place + 1 :]):
            needs[chance.choice(ids[place + 1 :])].add(id_)
    return {id_: tuple(sorted(needs[id_])) for id_ in chance.sample(ids, size)}


def seconds(seed: int) -> Delay:
    """Delays of up to two milliseconds."""
    return lambda id_: random.Random(f"{id_} {seed}").random() / 500


graphs = st.builds(random_graph, st.integers(1, 20), st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.5]))


class Workers:
    """Solves nodes without a graph: each waits until its whole batch has begun, then as long as it takes."""

    def __init__(self, delay: Delay = lambda id_: 0.0, failing: frozenset[str] = frozenset()) -> None:
        self.delay, self.failing = delay, failing
        self.views: dict[str, SolveView] = {}
        self.ended: list[str] = []
        self.ended_before: dict[str, set[str]] = {}
        self.batches: defaultdict[int, list[str]] = defaultdict(list)
        self.gates: dict[int, asyncio.Barrier] = {}

    async def __call__(self, view: SolveView, runtime: Any) -> dict[str, Any]:
        id_, batch = view["node"].id, len(self.ended)
        assert id_ not in self.views, "a node runs once"
        self.views[id_], self.ended_before[id_] = view, {*self.ended}
        self.batches[batch].append(id_)
        async with asyncio.timeout(TOGETHER):
            await self.gates.setdefault(batch, asyncio.Barrier(view["share"])).wait()
        await asyncio.sleep(self.delay(id_))
        self.ended.append(id_)
        return {"outcomes": [self.outcome(id_, last=view["entry"].last)], "usage": [], "spent": Spent(calls=1)}

    def outcome(self, id_: str, *, last: bool) -> Outcome:
        seen = Observation(text=f"done: {id_}")
        steps = () if last else (Step(action=Action(text=id_), digest=seen.digest()),)
        status: Any = "failed" if id_ in self.failing else "completed"
        return Outcome(node=id_, status=status, result=id_, ending="goal", steps=steps, taken=1, observation=seen)


async def unrevised(state: Any, runtime: Any) -> dict[str, Any]:
    return {"dag": state["dag"], "notes": ()}


def carried_out(needs: Needs, workers: Workers, kind: type[Jobs] = Jobs) -> dict[str, Any]:
    """The state after those workers carried out the graph."""

    async def decompose(state: Any, runtime: Any) -> dict[str, Any]:
        return {"dag": dag_of(needs), "notes": ()}

    graph = tdp.build(decompose=decompose, solve=workers, revise=unrevised)
    benchmark = kind(limits=ROOMY)
    graph_input: Any = {"task": benchmark.task("wide")}
    return asyncio.run(graph.ainvoke(graph_input, {"recursion_limit": 2_000}, context=Context(benchmark=benchmark)))


def ancestors(needs: Needs, id_: str) -> set[str]:
    return {found for need in needs[id_] for found in {need, *ancestors(needs, need)}}


def level(needs: Needs, id_: str) -> int:
    """The batch that a node is of."""
    return 1 + max((level(needs, need) for need in needs[id_]), default=0)


def world(state: Mapping[str, Any]) -> list[str]:
    """What was done in the run's own world."""
    return [step.action.text for step in state["history"]]


def assert_scheduled(needs: Needs, workers: Workers) -> None:
    assert sorted(workers.ended) == sorted(needs)
    for id_ in needs:
        assert set(needs[id_]) <= workers.ended_before[id_]
    for batch in workers.batches.values():  # that all of it was at work together its barrier has shown
        assert {workers.views[id_]["share"] for id_ in batch} == {len(batch)}


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(graphs, st.integers(0, 99))
def test_every_node_runs_once_after_what_it_needs_and_ready_ones_overlap(needs: Needs, seed: int):
    workers = Workers(seconds(seed))
    carried_out(needs, workers)
    assert_scheduled(needs, workers)
    waiting = {id_: set(before) for id_, before in needs.items()}
    for batch in workers.batches.values():
        assert sorted(batch) == sorted(id_ for id_, before in waiting.items() if not before)
        waiting = {id_: before - {*batch} for id_, before in waiting.items() if id_ not in batch}


@pytest.mark.slow
@pytest.mark.parametrize(("size", "share"), [(100, 0.3), (200, 0.01), (200, 0.05), (200, 0.5)])
@pytest.mark.parametrize("kind", [Jobs, SerialJobs])
def test_two_hundred_nodes(size: int, share: float, kind: type[Jobs]):
    needs, workers = random_graph(size, size, share), Workers(seconds(1))
    carried_out(needs, workers, kind)
    assert_scheduled(needs, workers)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(graphs)
def test_in_a_world_that_cannot_be_copied_one_node_runs_at_a_time_in_the_world_itself(needs: Needs):
    workers = Workers()
    carried_out(needs, workers, SerialJobs)
    assert_scheduled(needs, workers)
    assert {len(batch) for batch in workers.batches.values()} == {1}
    assert not any(view["entry"].apart for view in workers.views.values())


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(graphs, st.permutations(range(4)))
def test_nothing_depends_on_which_node_ends_first(needs: Needs, seeds: list[int]):
    one, other = (carried_out(needs, Workers(seconds(seed))) for seed in seeds[:2])
    assert one["outcomes"] == other["outcomes"]
    assert one["history"] == other["history"]
    assert one["dag"] == other["dag"]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(graphs, st.integers(0, 99))
def test_the_world_takes_the_steps_in_topological_order_and_a_copy_those_of_all_ancestors(needs: Needs, seed: int):
    workers = Workers(seconds(seed))
    done = world(carried_out(needs, workers))
    for place, id_ in enumerate(done):
        assert set(needs[id_]) <= {*done[:place]}
    for id_, view in workers.views.items():
        repeated = [step.action.text for step in view["entry"].steps]
        assert sorted(repeated) == sorted(ancestors(needs, id_))
        assert all(set(needs[step]) <= {*repeated[:place]} for place, step in enumerate(repeated))
        assert view["entry"].apart


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(graphs, st.data())
def test_what_needs_a_failed_node_does_not_run_and_all_else_does(needs: Needs, data: st.DataObject):
    failing = frozenset(data.draw(st.sets(st.sampled_from(sorted(needs)), min_size=1, max_size=3)))
    workers = Workers(failing=failing)
    state = carried_out(needs, workers)
    assert {*workers.ended} == {id_ for id_ in needs if not failing & ancestors(needs, id_)}
    assert tdp.ending(state) == "gave_up"


ONE = {"thread_id": "one"}


def solved(needs: Needs, chat: SlowModel, limits: Limits, budget: Budget | None = None) -> dict[str, Any]:
    """The state after TDP's own operators carried out the graph, or as far as the steps of the world allowed it."""

    async def decompose(state: Any, runtime: Any) -> dict[str, Any]:
        return {"dag": dag_of(needs), "notes": ()}

    benchmark = Jobs(limits=limits)
    context = Context(benchmark=benchmark, chat=chat, budget=budget or Budget())
    graph_input: Any = {"task": benchmark.task("wide")}
    graph, config = tdp.build(InMemorySaver(), decompose=decompose, revise=unrevised), RunnableConfig(configurable=ONE)
    try:
        return asyncio.run(graph.ainvoke(graph_input, config, context=context))
    except LimitReached as reached:
        if reached.kind != "steps":
            raise
        return graph.get_state(config).values


def test_the_only_sub_task_that_is_ready_may_take_all_steps_that_are_left():
    workers = Workers()
    carried_out({"a": (), "b": ("a",), "c": ("b",)}, workers)
    assert [workers.views[id_]["steps"] for id_ in "abc"] == [1_000, 999, 998]
    several = Workers()
    carried_out({"a": (), "b": (), "c": ("a", "b")}, several)
    assert [several.views[id_]["steps"] for id_ in "abc"] == [498, 498, 998], "three are kept for the last one"


class Chaining(SlowModel):
    """A strong model: it gives all actions of a sub-task at once, and says that they complete it."""

    def __init__(self, actions: int) -> None:
        super().__init__(responder=self.answer)
        self.__dict__["actions"] = actions

    def answer(self, prompt: str, schema: dict[str, Any]) -> Any:
        situation = current_situation()
        assert situation
        if "action" not in schema.get("properties", ()):
            judged = respond(prompt, schema)
            return {**judged, "status": "completed"} if "status" in judged else judged
        state, taken = situation.state, len(situation.state["turns"])
        name, last = subtask_of(state["task"]), self.__dict__["actions"] - 1
        first, *then = [f"{name} {number}" for number in range(taken, last)] + ["deliver" if state["last"] else "end"]
        return {"thought": "T", "standing": "completes", "report": "", "action": first, "then": then}


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({"goal": ()}, {"plan": 1, "execute": 1}),
        ({"a": (), "goal": ("a",)}, {"plan": 2, "execute": 2, "supervise": 1, "revise": 1}),
        ({"a": (), "b": ("a",), "goal": ("b",)}, {"plan": 3, "execute": 3, "supervise": 2, "revise": 2}),
    ],
    ids=["one", "two", "three"],
)
def test_a_sub_task_of_ten_plain_steps_costs_a_plan_an_action_and_a_judgement(needs: Needs, expected: dict[str, int]):
    def decompose(state: Any) -> Any:
        return {"dag": dag_of(needs), "notes": ()}

    chat, benchmark = Chaining(10), SerialJobs(limits=ROOMY)
    graph_input: Any = {"task": benchmark.task("wide")}
    graph = tdp.build(decompose=decompose)
    state = asyncio.run(graph.ainvoke(graph_input, context=Context(benchmark=benchmark, chat=chat)))
    assert tdp.ending(state) == "goal"
    assert len(world(state)) == 10 * len(needs)
    assert Counter(node for node, _ in chat.requests) == expected


def test_the_papers_loop_takes_one_action_a_call_and_judges_each():
    chat, benchmark = SlowModel(), SerialJobs(limits=ROOMY)
    graph_input: Any = {"task": benchmark.task("chain")}
    graph = tdp.build(**tdp.PAPER)
    state = asyncio.run(graph.ainvoke(graph_input, context=Context(benchmark=benchmark, chat=chat)))
    assert tdp.ending(state) == "goal"
    # of six actions the last one ends the world, and with it the last batch
    requests = Counter(node for node, _ in chat.requests)
    assert requests == {"decompose": 1, "plan": 3, "execute": 6, "supervise": 5, "revise": 2}


def test_a_world_that_reports_the_goal_before_it_ends_is_judged_by_nobody():
    def report(state: Any) -> Any:
        seen = Observation(text="solved", solved=True)
        outcome = Outcome(node="a", status="completed", result="", ending="goal", observation=seen, taken=1)
        return {"outcomes": [outcome], "usage": [], "spent": state["spent"]}

    def decompose(state: Any) -> Any:
        return {"dag": dag_of({"a": (), "goal": ("a",)}), "notes": ()}

    chat, benchmark = SlowModel(), SerialJobs(limits=ROOMY)
    graph_input: Any = {"task": benchmark.task("chain")}
    graph = tdp.build(decompose=decompose, solve=report)
    state = asyncio.run(graph.ainvoke(graph_input, context=Context(benchmark=benchmark, chat=chat)))
    assert (tdp.ending(state), [node.status for node in state["dag"].nodes]) == ("goal", ["completed", "pending"])
    assert not chat.requests


small = st.builds(random_graph, st.integers(1, 6), st.integers(0, 10_000), st.sampled_from([0.0, 0.3]))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(small, st.integers(1, 14))
def test_the_nodes_together_take_no_more_steps_than_the_run_has(needs: Needs, steps: int):
    state = solved(needs, SlowModel(), ROOMY.model_copy(update={"steps": steps}))
    taken = [(level(needs, outcome.node), outcome.taken) for outcome in state["outcomes"]]
    last = [steps_of_it for depth, steps_of_it in taken if depth == max(taken)[0]]
    assert sum(n for _, n in taken) <= steps or {*last} == {1}, "a node that is dispatched may take one step"
    assert sum(n for depth, n in taken if depth < max(taken)[0]) < steps
    assert len(world(state)) == sum(n for _, n in taken)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(small, st.integers(0, 30))
def test_nodes_that_run_at_the_same_time_do_not_overrun_the_budget(needs: Needs, calls: int):
    chat = SlowModel(seconds(calls))
    try:
        state = solved(needs, chat, ROOMY, Budget(calls=calls))
    except LimitReached as reached:
        assert reached.kind == "calls"
    else:
        assert state["spent"].calls == len(chat.requests)
    assert len(chat.requests) <= calls


# TDP's scopes: no prompt about a sub-task holds a word of one that it does not build on (section 3.3).

CANARIES = {canary(kind, id_): id_ for kind in KINDS for id_ in NEEDS}

SCOPES = {**{id_: {id_} for id_ in "abc"}, "d": {*"abd"}, "e": {*"ce"}, "g": {*NEEDS}}
"""Each sub-task and all that it builds on."""


def strangers(prompts: list[RecordedPrompt], canaries: Mapping[str, str] = CANARIES) -> set[tuple[str, str, str]]:
    """(operator, sub-task, canary) of what stands in a prompt and is of a sub-task that its own does not build on."""
    return {
        (one.operator, one.subtask, found)
        for one in about_one(prompts)
        for found, owner in canaries.items()
        if found in one.prompt and owner not in SCOPES[one.subtask]
    }


def about_one(prompts: list[RecordedPrompt]) -> list[RecordedPrompt]:
    """The prompts of who plans, carries out and supervises sub-tasks, not of who decomposes and revises the whole."""
    return [one for one in prompts if one.operator not in ("decompose", "revise")]


WITHIN: dict[str, dict[str, Any]] = {
    "plain": {},
    "structured": {"memory": "structured"},
    "freeform": {"memory": "freeform"},
    "gated": {"gate": exhaustion_gate()},
    "judged": {"memory": "structured", "gate": judged_gate()},
    "built": {"solve": subtask.build(memory="lobotomized")},
    "certified": {"solve": sdp.build(**sdp.PAPER)},
}


@pytest.mark.slow
@pytest.mark.parametrize("concurrent", [True, False], ids=["concurrent", "serial"])
@pytest.mark.parametrize("within", WITHIN)
def test_no_prompt_knows_of_a_subtask_that_its_own_does_not_build_on(within: str, concurrent: bool, tmp_path: Path):
    cast = SubtaskModel(lookup_actions([*NEEDS]))
    world = Records(facts_of([*NEEDS]), concurrent=concurrent, attempts=1)
    result = run_tdp(cast, world, tmp_path, **WITHIN[within])
    assert result.ending == "goal", result.message
    assert {one.subtask for one in about_one(cast.requests)} == {*NEEDS}
    assert strangers(cast.requests) == set()
    assert not [one for one in about_one(cast.requests) if WHOLE in one.prompt], "the goal's specification is all of it"


# TDP's isolation: what goes wrong in a sub-task stays there (section 3.3).

SET_ASIDE = "its part of the calls was spent; it begins again with all that is left"

INDEPENDENT = ("a", "c", "e")
"""What does not build on b; d and g do."""


def against_plan(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """What is observed speaks against every plan."""
    going_on = {"status": "needs_more_steps", "off_plan": True, "reason": "NOTHING FITS"}
    return {**answer, **going_on} if "status" in fields else answer


def nonsense(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """The model writes what the world does not know, and sees no end."""
    if "status" in fields:
        return {**answer, "status": "needs_more_steps", "off_plan": False}
    return {field: ["?!"] if field == "steps" else "?!" for field in fields - {"standing", "then"}}


def never_done(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """It goes on until its steps are used up."""
    return {**answer, "status": "needs_more_steps", "off_plan": False} if "status" in fields else answer


def given_up(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """Its Supervisor says so."""
    return {**answer, "status": "failed", "reason": "there is none"} if "status" in fields else answer


SPOILS = {spoil.__name__: spoil for spoil in (against_plan, nonsense, never_done, given_up)}


def played(
    out: Path, spoil: Spoil | None = None, world: Records | None = None, **options: Any
) -> tuple[Result, SubtaskModel]:
    """A run of the three levels, in which b goes wrong where a spoil is given."""
    cast = SubtaskModel(lookup_actions([*NEEDS]), spoils={"b": spoil} if spoil else {})
    return run_tdp(cast, world or looked_up(), out, **options), cast


def looked_up(*, concurrent: bool = True) -> Records:
    """The world. Nothing but its part of the steps ends a sub-task that goes round in circles."""
    return Records(facts_of([*NEEDS]), concurrent=concurrent, steps=80, repeats=0)


@pytest.mark.slow
@pytest.mark.parametrize("concurrent", [True, False], ids=["concurrent", "serial"])
@pytest.mark.parametrize("spoil", SPOILS)
def test_independent_outcomes_are_the_same_to_the_byte_whatever_fails(spoil: str, concurrent: bool, tmp_path: Path):
    world = looked_up(concurrent=concurrent)
    well, _ = played(tmp_path / "well", world=world)
    ill, cast = played(tmp_path / "ill", SPOILS[spoil], world)
    assert {id_: outcomes(ill)[id_] for id_ in INDEPENDENT} == {id_: outcomes(well)[id_] for id_ in INDEPENDENT}
    failed = [outcome.node for outcome in ill.state["outcomes"] if outcome.status == "failed"]
    assert failed == ["b"]
    assert {entry.subtask for entry in cast.requests} == {"", "a", "b", "c", "e"}, "d and g wait for b"
    assert (well.ending, ill.ending) == ("goal", "gave_up")


@pytest.mark.slow
@pytest.mark.parametrize("spoil", SPOILS)
def test_a_failure_adds_to_the_run_own_world_only_what_was_done(spoil: str, tmp_path: Path):
    ill, _ = played(tmp_path, SPOILS[spoil])
    taken = {outcome.node: outcome.taken for outcome in ill.state["outcomes"]}
    assert len(ill.state["history"]) == sum(taken.values())
    assert [taken[id_] for id_ in INDEPENDENT] == [2, 2, 2]


@pytest.mark.slow
def test_a_budget_is_spent_by_one_alone_and_only_after_all_others(tmp_path: Path):
    budget = Budget(calls=60)  # a third of it is more than a and c make, and less than b does
    well, _ = played(tmp_path / "well", budget=budget)
    ill, cast = played(tmp_path / "ill", never_done, budget=budget)
    outcome = next(outcome for outcome in ill.state["outcomes"] if outcome.node == "b")
    assert (outcome.status, outcome.steps) == ("pending", ())
    found = outcome.result.removeprefix(f"{SET_ASIDE}; before: ")
    assert found and found != outcome.result
    assert (ill.ending, ill.usage.calls) == ("limit:calls", 60)
    cast.spoils = {}
    again = resume(ill.folder, budget=Budget(), benchmark=looked_up(), chat=ScriptedChat(responder=cast))
    assert again.ending == "goal"
    assert {id_: outcomes(again)[id_] for id_ in INDEPENDENT} == {id_: outcomes(well)[id_] for id_ in INDEPENDENT}


@pytest.mark.slow
@pytest.mark.parametrize(("within", "found"), [("plain", "WHY"), ("structured", "FACT")])
def test_a_subtask_that_begins_again_knows_what_its_first_run_found(within: str, found: str, tmp_path: Path):
    ill, cast = played(tmp_path, never_done, budget=Budget(calls=90), **WITHIN[within])
    assert [outcome.status for outcome in ill.state["outcomes"] if outcome.node == "b"] == ["pending"]
    plans = [canary(found, "b") in prompt for prompt in cast.prompts("plan", "b")]
    assert plans == [False, True]
    others = [entry.prompt for entry in cast.requests if entry.subtask in INDEPENDENT]
    assert not [prompt for prompt in others if canary(found, "b") in prompt]


@pytest.mark.slow
def test_a_limit_that_an_operator_meets_ends_the_run_when_no_other_subtask_can_go_on(tmp_path: Path):
    async def stopping(state: Any, runtime: Any) -> dict[str, Any]:
        if state["assignment"] == canary("SPEC", "b"):
            raise LimitReached("tokens", 1, 1)
        return dict(await execute(state, runtime))

    well, _ = played(tmp_path / "well")
    ill, _ = played(tmp_path / "ill", execute=stopping)
    assert [outcome.status for outcome in ill.state["outcomes"] if outcome.node == "b"] == ["pending"]
    assert ill.ending == "limit:tokens"
    assert {id_: outcomes(ill)[id_] for id_ in INDEPENDENT} == {id_: outcomes(well)[id_] for id_ in INDEPENDENT}


@pytest.mark.slow
def test_what_waits_for_a_failed_subtask_goes_on_once_it_is_revised(tmp_path: Path):
    async def without_b(state: Any, runtime: Any) -> dict[str, Any]:
        nodes = [n.model_copy(update={"needs": ("a",)}) if n.id == "d" else n for n in state["dag"].nodes]
        return {"dag": Dag(nodes=tuple(nodes)), "notes": ()}

    ill, cast = played(tmp_path, given_up, revise=without_b)
    assert ill.ending == "goal"
    assert not any(canary("RESULT", "b") in entry.prompt for entry in cast.requests if entry.subtask in ("d", "g"))


@pytest.mark.slow
def test_a_model_that_gives_no_answer_stops_the_run_and_leaves_the_others_as_they_are(tmp_path: Path):
    well, _ = played(tmp_path / "well")
    ill, cast = played(tmp_path / "ill", lambda prompt, fields, answer: "no idea")
    assert ill.ending == "error:model"
    cast.spoils = {}
    again = resume(ill.folder, benchmark=looked_up(), chat=ScriptedChat(responder=cast))
    assert again.ending == "goal"
    assert {id_: outcomes(again)[id_] for id_ in INDEPENDENT} == {id_: outcomes(well)[id_] for id_ in INDEPENDENT}


def test_a_run_goes_on_with_the_operators_that_were_given_inside_its_subtasks():
    operators = operators_of(tdp.build(memory="structured", gate=judged_gate(stance="neutral")))
    assert operators_of(rebuild_graph("tdp", operators)) == operators
    assert "neutral" in str(operators["solve"])


# TDP inside TDP: a sub-task that is decomposed again begins where what it needs left the world.


def twice(prompt: str, schema: dict[str, Any]) -> Any:
    """The whole task is `x`, then `goal`; each of them is the same again: a first part and a second."""
    situation = current_situation()
    assert situation
    if "nodes" not in schema.get("properties", ()):
        return respond(prompt, schema)
    name = subtask_of(situation.state["task"])
    first, second = (f"{name}1", f"{name}2") if name else ("x", "goal")
    nodes = ((first, []), (second, [first]))
    return {"nodes": [{"id": id_, "task": f"do {id_}", "needs": needs} for id_, needs in nodes]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Jobs, SerialJobs])
def test_an_inner_node_finds_the_world_as_the_outer_ones_left_it(kind: type[Jobs]):
    entries = list[tuple[NestedStart, int]]()

    async def begin(state: Any, runtime: Any) -> dict[str, Any]:
        entries.append((runtime.context.entry, runtime.context.limits.steps))
        return await reset(state, runtime)

    benchmark = kind()
    graph_input: Any = {"task": benchmark.task("chain")}
    graph = tdp.build(solve=tdp.build(solve=subtask.build(reset=begin)))
    context = Context(benchmark=benchmark, chat=SlowModel(responder=twice))
    state = asyncio.run(graph.ainvoke(graph_input, context=context))
    done = ["x1 1", "x1 2", "x2 1", "x2 2", "goal1 1", "goal1 2", "goal2 1", "deliver"]
    assert [[step.action.text for step in entry.steps] for entry, _ in entries] == [done[:n] for n in (0, 2, 4, 6)]
    assert [step.action.text for step in state["history"]] == done
    assert [entry.last for entry, _ in entries] == [False, False, False, True], "the goal of a part is not the goal"
    assert max(most for _, most in entries) <= benchmark.limits.steps
    assert tdp.ending(state) == "goal"


# The copies of a world that sub-tasks work in: where more are at work than are kept, and where none can be made.


def solved_copies(benchmark: Jobs, **operators: Any) -> dict[str, Any]:
    graph_input: Any = {"task": benchmark.task("deep")}
    return asyncio.run(
        tdp.build(**operators).ainvoke(graph_input, context=Context(benchmark=benchmark, chat=SlowModel()))
    )


@pytest.mark.slow
def test_a_copy_that_was_closed_is_made_again_as_it_was():
    async def close_copies_and_execute(state: Any, runtime: Any) -> dict[str, Any]:
        for key in [key for key in episodes.EPISODES if "/" in key]:
            episodes.close_episode(key)
        return await execute(state, runtime)

    undisturbed, disturbed = Jobs(), Jobs()
    expected = solved_copies(undisturbed)
    state = solved_copies(disturbed, solve=solve(execute=close_copies_and_execute))
    assert state["outcomes"] == expected["outcomes"]
    assert state["history"] == expected["history"]
    assert len(disturbed.worlds) > len(undisturbed.worlds), "some were closed while their sub-tasks were at work"


@pytest.mark.slow
def test_an_episode_that_nobody_opened_yet_is_gone_on_with_by_one_node_at_a_time():
    async def unopened(state: Any, runtime: Any) -> dict[str, Any]:
        seen = {"observation": Observation(text="nothing is done"), "evidence": Evidence()}
        return {"task": state["task"], "episode": "unopened", "history": Overwrite([]), **seen}

    state = solved_copies(Jobs(), reset=unopened)
    episodes.close_episode("unopened")
    assert not state["concurrent"]
    assert tdp.ending(state) == "goal"  # type: ignore[arg-type]
