"""TDP's schedule on random task graphs: what runs when, in which world, and what of it depends on the clock."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from task_graphs import Jobs, Pondering, SerialJobs, dag_of

from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.graphs import tdp
from certigraph.state.records import Action, LimitReached, Observation, Spent, Step
from certigraph.state.tdp import Outcome, SolveView

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
    given: Any = {"task": benchmark.task("wide")}
    return asyncio.run(graph.ainvoke(given, {"recursion_limit": 2_000}, context=Context(benchmark=benchmark)))


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


@settings(max_examples=15, deadline=None)
@for_all(graphs, st.integers(0, 99))
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


@settings(max_examples=15, deadline=None)
@for_all(graphs)
def test_in_a_world_that_cannot_be_copied_one_node_runs_at_a_time_in_the_world_itself(needs: Needs):
    workers = Workers()
    carried_out(needs, workers, SerialJobs)
    assert_scheduled(needs, workers)
    assert {len(batch) for batch in workers.batches.values()} == {1}
    assert not any(view["entry"].apart for view in workers.views.values())


@settings(max_examples=15, deadline=None)
@for_all(graphs, st.permutations(range(4)))
def test_nothing_depends_on_which_node_ends_first(needs: Needs, seeds: list[int]):
    one, other = (carried_out(needs, Workers(seconds(seed))) for seed in seeds[:2])
    assert one["outcomes"] == other["outcomes"]
    assert one["history"] == other["history"]
    assert one["dag"] == other["dag"]


@settings(max_examples=15, deadline=None)
@for_all(graphs, st.integers(0, 99))
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


@settings(max_examples=15, deadline=None)
@for_all(graphs, st.data())
def test_what_needs_a_failed_node_does_not_run_and_all_else_does(needs: Needs, data: st.DataObject):
    failing = frozenset(data.draw(st.sets(st.sampled_from(sorted(needs)), min_size=1, max_size=3)))
    workers = Workers(failing=failing)
    state = carried_out(needs, workers)
    assert {*workers.ended} == {id_ for id_ in needs if not failing & ancestors(needs, id_)}
    assert tdp.ending(state) == "gave_up"


ONE = {"thread_id": "one"}


def solved(needs: Needs, chat: Pondering, limits: Limits, budget: Budget | None = None) -> dict[str, Any]:
    """The state after TDP's own operators carried out the graph, or as far as the steps of the world allowed it."""

    async def decompose(state: Any, runtime: Any) -> dict[str, Any]:
        return {"dag": dag_of(needs), "notes": ()}

    benchmark = Jobs(limits=limits)
    context = Context(benchmark=benchmark, chat=chat, budget=budget or Budget())
    given: Any = {"task": benchmark.task("wide")}
    graph, config = tdp.build(InMemorySaver(), decompose=decompose, revise=unrevised), RunnableConfig(configurable=ONE)
    try:
        return asyncio.run(graph.ainvoke(given, config, context=context))
    except LimitReached as reached:
        if reached.kind != "steps":
            raise
        return graph.get_state(config).values


small = st.builds(random_graph, st.integers(1, 6), st.integers(0, 10_000), st.sampled_from([0.0, 0.3]))


@settings(max_examples=15, deadline=None)
@for_all(small, st.integers(1, 14))
def test_the_nodes_together_take_no_more_steps_than_the_run_has(needs: Needs, steps: int):
    state = solved(needs, Pondering(), ROOMY.model_copy(update={"steps": steps}))
    taken = [(level(needs, outcome.node), outcome.taken) for outcome in state["outcomes"]]
    last = [steps_of_it for depth, steps_of_it in taken if depth == max(taken)[0]]
    assert sum(n for _, n in taken) <= steps or {*last} == {1}, "a node that is dispatched may take one step"
    assert sum(n for depth, n in taken if depth < max(taken)[0]) < steps
    assert len(world(state)) == sum(n for _, n in taken)


@settings(max_examples=15, deadline=None)
@for_all(small, st.integers(0, 30))
def test_nodes_that_run_at_the_same_time_do_not_overrun_the_budget(needs: Needs, calls: int):
    chat = Pondering(seconds(calls))
    try:
        state = solved(needs, chat, ROOMY, Budget(calls=calls))
    except LimitReached as reached:
        assert reached.kind == "calls"
    else:
        assert state["spent"].calls == len(chat.asked)
    assert len(chat.asked) <= calls
