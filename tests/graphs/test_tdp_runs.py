"""Runs of TDP: threads that go on, sub-tasks that are resumed, and solvers of several kinds."""

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from helpers.models.subtask_models import SubtaskModel, outcomes, run_tdp
from helpers.sample_runs.gold_runs import PLANNERS, UNLIMITED, reached_goal
from helpers.worlds.recorded_benchmark import RecordedBenchmark, gold_recordings
from helpers.worlds.task_graphs import GRAPHS, Jobs, SerialJobs, SlowModel, respond, subtask_of
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from certigraph import Dag, Limits, Node, Progress, resume
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.episodes import EPISODES, close_episode
from certigraph.adapters.models.scripts import current_situation
from certigraph.adapters.protocols import Budget, Context
from certigraph.benchmarks.scienceworld.splits import list_ids
from certigraph.benchmarks.travelplanner.benchmark import TravelPlanner
from certigraph.graphs import cot, plan_and_act, react, sdp, tdp
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.sdp import always_pass, capped, validate
from certigraph.nodes.tdp import decompose, undivided, unrevised
from certigraph.runtime.registry import build_graph, parse_swap, rebuild_graph
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.endings import LimitReached, UnknownName
from certigraph.state.tdp import Outcome
from certigraph.state.trajectory import serializer

# TDP as a plain LangGraph graph: nodes that raise, threads that go on, savers of every kind, callers of every kind.


PAUSES = {"b": 0.01, "c": 0.03}
"""Seconds: when `b` raises, `a` has ended and `c` is at work."""

Call = Callable[[Any, Any, Context], Any]


class BrokenError(Exception):
    """What a node raises."""


class Breaking(SlowModel):
    """Breaks once, when the sub-task `b` has done everything and is to be judged."""

    broken: bool = False

    def __init__(self) -> None:
        super().__init__(lambda subtask: PAUSES.get(subtask, 0.0), self.answer)

    def answer(self, prompt: str, schema: dict[str, Any]) -> Any:
        situation = current_situation()
        assert situation
        at_work = (situation.node, subtask_of(situation.state["task"]), len(situation.state.get("turns", ())))
        if at_work == ("supervise", "b", 2) and not self.broken:
            self.broken = True
            raise BrokenError("the endpoint is gone")
        return respond(prompt, schema)


def invoke(graph: Any, given: Any, context: Context) -> Any:
    return graph.invoke(given, THREAD, context=context)


def ainvoke(graph: Any, given: Any, context: Context) -> Any:
    return asyncio.run(graph.ainvoke(given, THREAD, context=context))


THREAD: Any = {"configurable": {"thread_id": "thread"}}


def in_memory() -> InMemorySaver:
    return InMemorySaver(serde=serializer())


def in_sqlite() -> SqliteSaver:
    return SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False), serde=serializer())


WAYS = [(in_memory, invoke), (in_memory, ainvoke), (in_sqlite, invoke)]


@pytest.fixture
def no_worlds_left() -> Iterator[None]:
    before = {*EPISODES}
    yield
    for key in {*EPISODES} - before:
        close_episode(key)


def given(benchmark: Jobs, task: str = "deep") -> Any:
    return {"task": benchmark.task(task)}


def comparable_state(state: Any) -> dict[str, Any]:
    """A state without what differs from run to run; a tuple that was in a checkpoint is a list."""
    kept = {key: value for key, value in state.items() if key not in ("episode", "usage", "spent")}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in kept.items()}


@pytest.mark.usefixtures("no_worlds_left")
@pytest.mark.parametrize("kind", [Jobs, SerialJobs])
@pytest.mark.parametrize(("saver", "call"), WAYS)
@pytest.mark.slow
def test_a_thread_whose_node_raised_goes_on_inside_its_sub_tasks(kind: type[Jobs], saver: Any, call: Call):
    benchmark, chat = kind(), Breaking()
    context, graph = Context(benchmark=benchmark, chat=chat), tdp.build(saver())
    with pytest.raises(BrokenError):
        call(graph, given(benchmark), context)
    before = Counter(chat.requests)
    state = call(graph, None, context)
    again = Counter(chat.requests) - before
    whole = SlowModel()
    expected = call(tdp.build(saver()), given(benchmark), Context(benchmark=benchmark, chat=whole))
    assert comparable_state(state) == comparable_state(expected)
    assert not {name for _, name in again} & {"a"}, "a had ended"
    assert ("plan", "b") not in again, "b goes on where it was"
    repeated = Counter(chat.requests) - Counter(whole.requests)
    assert max(Counter(name for _, name in repeated).values(), default=0) <= 1, "the call that was cut off"


@pytest.mark.usefixtures("no_worlds_left")
@pytest.mark.parametrize(("saver", "call"), WAYS)
def test_a_solver_of_another_kind_keeps_its_checkpoints_in_the_same_saver(saver: Any, call: Call):
    benchmark = Jobs()
    graph = tdp.build(saver(), solve="react")
    state = call(graph, given(benchmark, "chain"), Context(benchmark=benchmark, chat=SlowModel(responder=acting)))
    assert tdp.ending(state) == "goal"
    assert [outcome.node for outcome in state["outcomes"]] == [*GRAPHS["chain"]]


def acting(prompt: str, schema: dict[str, Any]) -> Any:
    """The scripted model of agents that have no plan: they act until the world or the steps end."""
    situation = current_situation()
    assert situation
    if "action" not in schema.get("properties", ()):
        return respond(prompt, schema)
    return {"thought": "on with it", "action": "deliver"}


@pytest.mark.slow
@pytest.mark.usefixtures("no_worlds_left")
def test_two_threads_at_once_have_nothing_to_do_with_each_other():
    benchmark, graph, states = Jobs(), tdp.build(in_memory()), dict[str, Any]()

    def run(name: str) -> None:
        config: Any = {"configurable": {"thread_id": name}}
        context = Context(benchmark=benchmark, chat=SlowModel(lambda subtask: 0.002))
        states[name] = graph.invoke(given(benchmark, name), config, context=context)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("wide", "deep")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: [outcome.node for outcome in state["outcomes"]] for name, state in states.items()} == {
        name: [node for batch in BATCHES[name] for node in batch] for name in states
    }
    assert {tdp.ending(state) for state in states.values()} == {"goal"}


BATCHES = {"wide": ["abc", ["goal"]], "deep": ["abc", "de", ["goal"]]}
"""The nodes of each task graph in the order in which they are gathered."""


@pytest.mark.usefixtures("no_worlds_left")
def test_every_copy_of_a_world_is_closed_also_where_a_node_raised():
    benchmark, chat = Jobs(), Breaking()
    with pytest.raises(BrokenError):
        ainvoke(tdp.build(), given(benchmark), Context(benchmark=benchmark, chat=chat))
    assert [key for key in EPISODES if "/" in key] == []


@pytest.mark.usefixtures("no_worlds_left")
def test_a_budget_spent_inside_one_of_several_nodes_fails_that_node_and_counts_what_it_queried():
    benchmark, chat = Jobs(), SlowModel()
    context = Context(benchmark=benchmark, chat=chat, budget=Budget(calls=1 + 3 * 4))
    with pytest.raises(LimitReached) as reached:
        ainvoke(tdp.build(), given(benchmark, "wide"), context)
    assert reached.value.kind == "calls"
    assert len(chat.requests) == 13


class Garbling(SlowModel):
    """Plans, and then says what is not an action: every try is paid for."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        garbled = self.requests[-1][0] == "execute"
        unusable = ChatResult(generations=[ChatGeneration(message=AIMessage("no idea"))])
        return unusable if garbled else super()._generate(messages, *args, **kwargs)


@pytest.mark.usefixtures("no_worlds_left")
def test_what_a_node_spent_before_its_part_of_the_budget_was_used_up_counts():
    async def unrevised(state: Any, runtime: Any) -> dict[str, Any]:
        return {"dag": state["dag"], "notes": ()}

    benchmark, chat, graph = Jobs(), Garbling(), tdp.build(in_memory(), revise=unrevised)
    context = Context(benchmark=benchmark, chat=chat, budget=Budget(calls=1 + 3 * 3))
    with pytest.raises(LimitReached):
        ainvoke(graph, given(benchmark, "wide"), context)
    state = graph.get_state(THREAD).values
    assert {outcome.status for outcome in state["outcomes"]} == {"pending"}
    assert state["spent"].calls == sum(usage.calls for usage in state["usage"]) == len(chat.requests) == 10


@pytest.mark.usefixtures("no_worlds_left")
def test_a_goal_node_alone_that_spends_the_budget_ends_the_run_and_goes_on_with_a_larger_one():
    benchmark, chat, graph = Jobs(), SlowModel(), tdp.build(in_memory())
    context = Context(benchmark=benchmark, chat=chat)
    with pytest.raises(LimitReached):
        ainvoke(graph, given(benchmark, "chain"), context.model_copy(update={"budget": Budget(calls=3)}))
    assert len(chat.requests) == 3
    state = ainvoke(graph, None, context)
    assert tdp.ending(state) == "goal"
    assert max(Counter(chat.requests).values()) <= 2, "no call but execute and supervise comes twice"


# What may solve a sub-task of TDP: any graph that works on one episode, given by name, module or compiled.

QUESTION = ("hotpotqa", "dev-bridge-0")


@pytest.fixture
def _generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


@pytest.mark.usefixtures("_generated")
@pytest.mark.parametrize("given", ["sdp", sdp, sdp.graph], ids=["name", "module", "compiled"])
def test_a_graph_is_given_by_name_as_a_module_or_compiled(given: Any):
    assert operators_of(tdp.build(solve=given))["solve"]["args"] == {"graph": "sdp"}  # type: ignore[index,call-overload]


@pytest.mark.usefixtures("_generated")
@pytest.mark.slow  # the search agents mix in vectors, whose encoder takes seconds to load
@pytest.mark.parametrize("solver", ["sdp", "react", "pbai", "ircot", "tdp"])
def test_a_question_is_answered_whatever_graph_solves_its_subtasks(solver: str, tmp_path: Path):
    result = run(tdp.build(solve=solver), *QUESTION, out=tmp_path)
    assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0)
    assert {outcome.status for outcome in result.state["outcomes"]} == {"completed"}


@pytest.mark.usefixtures("_generated")
def test_operators_of_the_inner_graph_are_kept_in_the_header_and_made_again():
    graph = tdp.build(solve=sdp.build(validate=capped(validate, depth=1)))
    given = operators_of(graph)
    assert given["solve"]["args"]["validate"]["name"] == "capped"  # type: ignore[index,call-overload]
    assert operators_of(rebuild_graph("tdp", given)) == given


@pytest.mark.usefixtures("_generated")
@pytest.mark.parametrize(
    ("operators", "error", "named"),
    [
        ({"solve": "nosuch"}, UnknownName, "nosuch"),
        *(({"solve": name}, TypeError, name) for name in ("step", "reflexion", "clin")),  # they begin a task again
        ({"solve": sdp, "plan": always_pass}, TypeError, "plan"),
        ({"solver": always_pass}, TypeError, "solve"),
    ],
)
def test_what_cannot_solve_sub_tasks_is_refused(operators: Any, error: type[Exception], named: str):
    with pytest.raises(error, match=named):
        tdp.build(**operators)


@pytest.mark.usefixtures("_generated")
@pytest.mark.parametrize("swap", ["revise=unrevised:often=1", "solve=clin", "solve=sdp:banana=3"])
def test_swaps_that_cannot_be_built_are_refused(swap: str):
    with pytest.raises(UnknownName, match=r"often|clin|banana"):
        build_graph("tdp", dict([parse_swap(swap)]))


@pytest.mark.usefixtures("_generated")
@pytest.mark.slow
def test_react_in_the_nodes_leaves_its_answer_as_the_result(tmp_path: Path):
    result = run(tdp.build(solve=react), *QUESTION, out=tmp_path)
    assert all(outcome.result.startswith("answer: ") for outcome in result.state["outcomes"])


# Operators of one's own in TDP's slots are held to the same rules as the shipped ones, by name and at once.

ONE = Dag(nodes=(Node(id="n1", task="stack it"),))


def giving(**update: Any) -> Any:
    async def mine(state: Any, runtime: Any) -> dict[str, Any]:
        return update

    return mine


def ran(out: Path, limits: Limits | None = None, **operators: Any) -> Result:
    return run(tdp.build(**operators), "hotpotqa:interactive", "dev-bridge-0", context=Context(limits=limits), out=out)


def chain(length: int) -> Dag:
    return Dag(nodes=tuple(Node(id=str(n), task=f"do {n}", needs=(str(n - 1),) if n else ()) for n in range(length)))


@pytest.mark.usefixtures("_generated")
@pytest.mark.parametrize(
    "dag",
    [Dag(), chain(9), Dag(nodes=(Node(id="n1", task="t", status="completed"),)), [ONE], {"nodes": []}],
    ids=["empty", "too many", "run already", "a list", "a dict"],
)
def test_a_decomposition_that_is_none_is_refused_by_name(dag: Any, tmp_path: Path):
    result = ran(tmp_path, decompose=giving(dag=dag, notes=()))
    assert result.ending == "error:operator"
    assert "decompose" in result.message


@pytest.mark.slow
@pytest.mark.usefixtures("_generated")
def test_an_outcome_of_no_sub_task_is_refused_and_the_thread_can_still_be_read(tmp_path: Path):
    async def astray(state: Any, runtime: Any) -> dict[str, Any]:
        outcome = Outcome(
            node="zzz", status="completed", result="", ending="goal", observation=state["entry"].observation
        )
        return {"outcomes": [outcome], "usage": [], "spent": state["spent"]}

    result = ran(tmp_path, solve=astray)
    assert result.ending == "error:operator"
    assert "zzz" in result.message
    assert result.state["dag"].pending


def changed(**update: Any) -> Any:
    async def mine(state: Any, runtime: Any) -> dict[str, Any]:
        return {"dag": Dag(nodes=tuple(n.model_copy(update=update) for n in state["dag"].nodes)), "notes": ()}

    return mine


async def forgetful(state: Any, runtime: Any) -> dict[str, Any]:
    left = [n for n in state["dag"].nodes if n.status == "pending"]
    kept = tuple(n.model_copy(update={"needs": tuple(need for need in n.needs if need in left)}) for n in left)
    return {"dag": Dag(nodes=kept), "notes": ()}


@pytest.mark.usefixtures("_generated")
@pytest.mark.parametrize(
    "revise", [changed(task="another"), changed(status="pending"), changed(status="completed"), forgetful]
)
def test_a_revision_cannot_touch_what_has_run_or_say_that_something_has(revise: Any, tmp_path: Path):
    assert ran(tmp_path, revise=revise).ending == "error:operator"


@pytest.mark.usefixtures("_generated")
def test_notes_of_all_graphs_are_kept_with_where_they_come_from(tmp_path: Path):
    async def noting(state: Any, runtime: Any) -> dict[str, Any]:
        return {**await unrevised(state, runtime), "notes": ("looked",)}

    async def noted(state: Any, runtime: Any) -> dict[str, Any]:
        return {**await decompose(state, runtime), "notes": ("mine",)}

    notes = list(ran(tmp_path, decompose=noted, revise=noting).state["notes"])
    assert notes[0] == "decomposing: mine"
    assert notes[1:] == [f"revision {n}: looked" for n in range(1, len(notes))]
    assert len(notes) > 2


@pytest.mark.slow
@pytest.mark.usefixtures("_generated")
def test_steps_that_are_used_up_end_the_run_and_more_of_them_go_on_with_it(tmp_path: Path):
    cut = ran(tmp_path, Limits(steps=2))
    assert cut.ending == "limit:steps"
    assert "steps" in cut.message
    assert resume(cut.folder, limits=Limits(steps=40)).ending == "goal"


@pytest.mark.usefixtures("_generated")
def test_without_decomposing_or_revising_the_task_is_its_only_subtask(tmp_path: Path):
    result = ran(tmp_path, decompose=undivided, revise=unrevised)
    assert [node.id for node in result.state["dag"].nodes] == ["task"]


@pytest.mark.usefixtures("_generated")
def test_arguments_of_a_graph_that_solves_are_its_operators():
    graph = build_graph("tdp", dict([parse_swap("solve=sdp:validate=always_pass")]))
    assert graph.builder.nodes["solve"].metadata["operator"]["args"]["validate"]["name"] == "always_pass"


@pytest.mark.usefixtures("_generated")
def test_progress_is_what_a_supervisor_of_ones_own_returns(tmp_path: Path):
    result = ran(tmp_path, supervise=giving(progress=Progress(status="failed", reason="not today")))
    assert result.state["outcomes"][0].result == "not today"


# Figure 4 of the TDP paper in TravelPlanner's tool world: no return flight, and only the flights are planned again.

TRIP = {"cities": (), "flights": ("cities",), "stay": ("cities",), "plan": ("flights", "stay")}
"""The cities, flights and a place to stay side by side, the plan from both."""


@pytest.mark.slow
def test_only_the_subtask_whose_return_flight_is_missing_is_planned_again(tmp_path: Path):
    flying, there_and_back = _trip(tmp_path / "flying", back="2022-03-09")
    stranded, missing = _trip(tmp_path / "stranded", back="2022-03-08")
    replanned = [[e.subtask for e in run.trajectory.events if e.node == "replan"] for run in (flying, stranded)]
    assert replanned == [[], ["flights"]]
    for id_ in ("cities", "stay"):
        assert [a for a in missing.requests if a.subtask == id_] == [
            a for a in there_and_back.requests if a.subtask == id_
        ]
        assert outcomes(stranded)[id_] == outcomes(flying)[id_]
    assert "There is no flight from Quarriford" in missing.prompts("replan")[0]
    assert stranded.ending == flying.ending == "goal"


def _trip(out: Path, back: str) -> tuple[Result, SubtaskModel]:
    """The trip of the first generated query, whose world has flights back on the third day and none on the second."""
    world = TravelPlanner(None, "tools")
    ways = ["FlightSearch[Selmoness, Quarriford, 2022-03-07]", f"FlightSearch[Quarriford, Selmoness, {back}]"]
    actions = {
        "cities": ["CitySearch[Ostrashire]"],
        "flights": [*ways, "GoogleDistanceMatrix[Quarriford, Selmoness, self-driving]"],
        "stay": ["AccommodationSearch[Quarriford]"],
        "plan": ["MakePlan[the trip]"],
    }
    cast = SubtaskModel(actions, TRIP, {**dict.fromkeys(TRIP, _noticing), "plan": _planning})
    return run_tdp(cast, world, out), cast


def _noticing(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """The Supervisor calls off what the latest answer speaks against, and nothing else."""
    if "status" not in fields:
        return answer
    situation = current_situation()
    assert situation
    return {**answer, "off_plan": situation.state["observation"].text.startswith("There is no flight")}


def _planning(prompt: str, fields: frozenset[str], answer: Any) -> Any:
    return '[{"current_city": "Quarriford"}]' if fields == {"text"} else answer


# TDP and the graphs that it is compared with, by `scripted:expert`, to a scored end in every benchmark.

GRAPHS_BENCHMARKS: dict[str, Callable[..., Any]] = {
    "tdp": tdp.build,
    "plan_and_act": plan_and_act.build,
    "cot": cot.build,
    "react": react.build,
}

QUESTIONS = [
    ("hotpotqa", "dev-bridge-0"),
    ("hotpotqa", "dev-comparison-0"),
    ("hotpotqa:corpus", "dev-bridge-1"),
    ("hotpotqa:interactive", "dev-bridge-0"),
    ("hotpotqa:interactive", "dev-comparison-0"),
    ("musique", "3hop__dev_1"),
    ("locomo", "made-0/0"),
    ("locomo", "made-0/10"),
    ("locomo", "made-0/0-swapped"),
    ("swe_qa", "made/3"),
]
"""Chains and comparisons, at hand, in a corpus and by title; turns of a talk, one that is in none; a repository."""

CHOSEN = [
    *(("tdp", *question) for question in QUESTIONS),
    ("plan_and_act", "hotpotqa:interactive", "dev-bridge-0"),
    ("cot", "musique", "3hop__dev_1"),
    ("react", "swe_qa", "made/3"),
]
"""Every question by TDP, and one by each other graph."""

RECORDED = ("find-plant", "identify-life-stages-2", "inclined-plane-determine-angle", "use-thermometer")


def paired(tasks: Sequence[str]) -> list[tuple[str, str]]:
    """Every task with TDP, and the first one with every other planner."""
    return [*(("tdp", task) for task in tasks), *((name, tasks[0]) for name in PLANNERS if name != "tdp")]


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("certigraph.adapters.retrieval.dense.find_encoder", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CERTIGRAPH_INDEX", raising=False)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def ran_benchmarks(graph: Any, benchmark: str, task: str, out: Path, data: Path | None = None, **more: Any) -> Result:
    return run(graph, load_benchmark(benchmark, str(data) if data else None), task, context=Context(**more), out=out)


@pytest.mark.slow
@pytest.mark.usefixtures("no_encoder")
@pytest.mark.parametrize(("graph", "benchmark", "task"), CHOSEN)
def test_a_question_is_answered_right_on_the_evidence(graph: str, benchmark: str, task: str, tmp_path: Path):
    result = ran_benchmarks(GRAPHS_BENCHMARKS[graph](), benchmark, task, tmp_path)
    assert result.scores, result.message
    parts = result.scores.parts
    assert (result.ending, parts["em"]) == ("goal" if graph == "tdp" else "world_ended", 1.0)
    assert (parts["forced"], parts["evidence_found"] or 1.0) == (0.0, 1.0)


@pytest.mark.usefixtures("no_encoder")
@pytest.mark.parametrize("task", ["dev-bridge-0", "dev-comparison-0"])
def test_what_failed_for_want_of_steps_is_waited_for_no_longer(task: str, tmp_path: Path):
    limits = load_benchmark("hotpotqa:interactive").limits.model_copy(update={"steps": 4})
    result = ran_benchmarks(tdp.build(), "hotpotqa:interactive", task, tmp_path, limits=limits)
    assert "failed" in {outcome.status for outcome in result.state["outcomes"]}
    assert (result.ending, result.scores and result.scores.parts["em"]) == ("goal", 1.0), result.message


@pytest.mark.slow
@pytest.mark.usefixtures("no_encoder")
@pytest.mark.parametrize(("name", "family"), paired(RECORDED))
def test_a_recorded_gold_path_is_followed_to_100(name: str, family: str, tmp_path: Path):
    build, benchmark = PLANNERS[name]
    live = RecordedBenchmark(gold_recordings(), benchmark.partition(":")[2])
    result = run(build(), live, f"gold/{family}:0", context=UNLIMITED, out=tmp_path)
    assert reached_goal(result), result.message
    actions = [step.action.text for step in result.state["history"]]
    assert actions == list(live.recorded[f"gold/{family}:0"].actions)
    if name == "tdp":
        chain = result.state["dag"].nodes
        assert [node.needs for node in chain] == [(), *((node.id,) for node in chain[:-1])]
        assert {node.status for node in chain} == {"completed"}


@pytest.mark.usefixtures("no_encoder")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "benchmark"), [("tdp", "hotpotqa:interactive"), ("react", "hotpotqa:interactive"), ("tdp", "musique")]
)
def test_real_questions_are_answered_within_thirty_steps(graph: str, benchmark: str, tmp_path: Path):
    made = load_benchmark(benchmark, str(data_folder(benchmark.partition(":")[0]).parent))
    built = GRAPHS_BENCHMARKS[graph]()
    for task in made.tasks()[::20][:15]:
        result = run(built, made, task, out=tmp_path)
        assert result.scores and result.scores.parts["em"] == 1.0, (task.id, result.message)
        assert len(result.state["history"]) <= 30


@pytest.mark.usefixtures("no_encoder")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "task"), paired((*list_ids("short"), "tdp-100/find-non-living-thing:244")))
def test_the_real_simulator_is_walked_to_100(name: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    build, benchmark = PLANNERS[name]
    result = run(build(), benchmark, task, context=Context(), out=tmp_path)
    assert reached_goal(result), result.message
    assert len(result.state["history"]) <= 60
