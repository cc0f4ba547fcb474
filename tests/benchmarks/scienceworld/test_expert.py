"""Tests of `benchmarks.scienceworld.expert`."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from helpers.worlds.recorded_benchmark import RecordedBenchmark, gold_recordings
from helpers.worlds.recorded_worlds import recorded_task
from pydantic import BaseModel, Field

from certigraph.adapters.episodes import EPISODES, close_episode
from certigraph.adapters.matching import NONE_OF_THESE
from certigraph.adapters.models.schemas import schema_of
from certigraph.adapters.models.scripts import (
    IMPOSSIBLE_PREFIX,
    INVALID_ACTION,
    REPEATED_SUFFIX,
    ScriptedChat,
    Situation,
    collect_citations,
    use_situation,
)
from certigraph.adapters.protocols import Context, StateCheck
from certigraph.benchmarks.scienceworld import benchmark, recordings
from certigraph.benchmarks.scienceworld.benchmark import ScienceWorldBenchmark
from certigraph.benchmarks.scienceworld.expert import (
    IDLE_ACTION,
    count_done,
    create_expert,
    find_segment,
    join_segments,
    segments_of,
)
from certigraph.benchmarks.scienceworld.objects import MAX_ACTIONS, WorldState
from certigraph.benchmarks.scienceworld.recordings import GoldRecording, read_recordings
from certigraph.graphs import sdp
from certigraph.nodes.actions import CHECK_ACTION, NextAction
from certigraph.nodes.conditions import Conditions
from certigraph.nodes.sdp import always_pass, capped, give_up
from certigraph.nodes.verdicts import Holds
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Predicate, Step
from certigraph.state.trajectory import TrajectoryLine

# ScienceWorld's expert: where it stands on the gold path, and that errors of any kind do not throw it off for good.

FAMILIES = ("boil", "find-plant", "identify-life-stages-2", "inclined-plane-determine-angle", "use-thermometer")
"""Heat and waiting, search, stages, an experiment with questions, a measurement."""

SWAPS = {
    "none": {},
    "always_pass": {"validate": always_pass},
    "give_up": {"replan": give_up},
    "capped": {"validate": capped(depth=1)},
}


def gold_of(task: str) -> GoldRecording:
    return next(recording for recording in gold_recordings() if recording.task == task)


def make_step(action: str, **args: Any) -> Step:
    return Step(action=Action(text=action, args=args), digest="-")


def answer(
    gold: GoldRecording, form: Any, history: list[Step], score: int, holding: Iterable[str] = (), **state: Any
) -> Any:
    """What the expert answers where a run stands so, and the world states in `holding` hold."""
    seen = Observation(text="", data={"score": score})
    shown = {"task": recorded_task(gold), "history": history, "observation": seen, **state}
    known = {one.text for one in gold.states}

    def check(text: str) -> StateCheck | None:
        return StateCheck(text in holding, f"seen: {text}") if text in known else None

    with use_situation(Situation("realize", 1, shown, check_state=check)):
        return create_expert(lambda *key: gold)("", schema_of(form))


def test_what_is_done_is_found_in_the_history_in_order_with_anything_between():
    path = ["look", "open door", "look", "go"]
    assert count_done(path, []) == 0
    assert count_done(path, [make_step("open door"), make_step("go")]) == 0
    assert (
        count_done(path, [make_step("LOOK"), make_step(INVALID_ACTION), make_step("go"), make_step("open  door")]) == 2
    )
    assert count_done(path, [make_step("look"), make_step("open the door", written="open door")]) == 2
    assert count_done(path, [make_step(action) for action in [*path, *path]]) == 4


def test_the_next_action_is_the_paths_next_one_whatever_the_target():
    gold = gold_of("boil")
    for done in (0, 1, 5):
        history = [
            step
            for action in gold.actions[:done]
            for step in (make_step(INVALID_ACTION), make_step(action), make_step(INVALID_ACTION))
        ]
        assert answer(gold, NextAction, history, 0, plan=[Predicate(text="anything")])["action"] == gold.actions[done]


def test_a_plan_names_the_world_states_ahead_and_none_of_those_reached():
    gold = gold_of("boil")
    texts = [state.text for state in gold.states]
    assert "The metal pot is in the stove." in texts and "The stove is activated." in texts
    assert answer(gold, Conditions, [], gold.start)["conditions"] == texts
    done = [make_step(action) for action in gold.actions[: gold.states[4].after]]
    assert answer(gold, Conditions, done, 0)["conditions"] == texts[5:]


def test_a_verdict_counts_what_holds_in_the_world_up_to_the_first_that_does_not():
    gold = gold_of("boil")
    first, second, third = (state.text for state in gold.states[:3])

    def judged(*texts: str, holding: Iterable[str]) -> tuple[int, list[str]]:
        plan = [Predicate(text="already certified"), *(Predicate(text=text) for text in texts)]
        with collect_citations() as cited:
            held = answer(gold, Holds, [], 0, holding, plan=plan, head=1)["holds"]
        return int(held), cited

    assert judged(first, second, third, holding=()) == (0, [f"seen: {first}"])
    assert judged(first, second, third, holding=[first]) == (1, [f"seen: {first}"])
    assert judged(first, second, third, holding=[first, second, third])[0] == 3
    assert judged(first, second, third, holding=[first, third])[0] == 1
    assert judged(first, f"{first}{REPEATED_SUFFIX}", second, holding=[first])[0] == 2
    assert judged(f"{IMPOSSIBLE_PREFIX} (2).", first, holding=[first]) == (0, []), "undecided: nothing is cited"


def test_where_none_of_the_meanings_is_its_action_it_says_so():
    gold = gold_of("boil")

    def chosen(*options: str) -> str:
        form = {"type": "object", "properties": {"choice": {"type": "string", "enum": [*options]}}}
        shown = {"task": recorded_task(gold), "history": [], "observation": Observation(text="", data={"score": 0})}
        with use_situation(Situation("realize", 1, shown)):
            return str(create_expert(lambda *key: gold)("", form)["choice"])

    right = gold.actions[0]
    assert chosen("open cupboard", NONE_OF_THESE) == NONE_OF_THESE
    assert chosen("open cupboard", right, NONE_OF_THESE) == right
    assert chosen("open door", "wait") == "open door"


def test_it_only_looks_where_the_target_holds_already():
    gold = gold_of("boil")
    target = gold.states[0].text
    plan = [Predicate(text=target)]
    assert answer(gold, NextAction, [], 0, (), plan=plan)["action"] == gold.actions[0]
    assert answer(gold, NextAction, [], 0, (target,), plan=plan)["action"] == IDLE_ACTION


class Graph(BaseModel):
    """What is asked of who decomposes: the nodes, at most eight."""

    nodes: list[dict[str, Any]] = Field(json_schema_extra={"maxItems": 8})


def test_a_task_graph_is_a_chain_of_the_world_states_ahead_neighbours_joined_where_there_are_many():
    gold = gold_of("mendelian-genetics-known-plant")
    chain = answer(gold, Graph, [], 0)["nodes"]
    assert len(gold.states) > 8 >= len(chain)
    assert [node["needs"] for node in chain] == [[], *([node["id"]] for node in chain[:-1])]
    assert " ".join(node["task"] for node in chain) == " ".join(segment.text for segment in segments_of(gold))
    ends = [find_segment(node["task"], gold) for node in chain]
    assert [end and end.last for end in ends] == [group.last for group in join_segments(segments_of(gold), 8)]


@pytest.mark.parametrize("task", [recording.task for recording in gold_recordings()])
def test_the_segments_of_a_path_are_short_and_end_where_it_does(task: str):
    gold = gold_of(task)
    ends = [segment.last for segment in segments_of(gold)]
    assert ends == sorted(ends) and ends[-1] == gold.firstdone
    assert max(after - before for before, after in zip([0, *ends], ends, strict=False)) <= MAX_ACTIONS
    assert segments_of(gold)[-1].score == 100
    assert len({state.text for state in gold.states}) == len(gold.states), "plans drop repeated conditions"


def simulated(family: str, out: Path, swap: str, config: str = "") -> Result:
    twins = RecordedBenchmark(gold_recordings(), config)
    limits = twins.limits.model_copy(update={"options": 1})  # written, a wrong action is an invalid one
    context = Context(model="simulated:propose=0.1,act=0.3,accept=0.1,reject=0.1,seed=2", limits=limits)
    graph = sdp.build(**{**sdp.PAPER, **SWAPS[swap]})  # type: ignore[arg-type]
    return run(graph, twins, f"gold/{family}:0", context=context, out=out)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_errors_of_every_kind_delay_the_expert_and_do_not_stop_it(family: str, tmp_path: Path):
    result = simulated(family, tmp_path, "none")
    assert result.scores and result.scores.value == 1.0, result.ending
    taken = [step.action.text for step in result.state["history"]]
    gold = gold_of(family).actions
    assert taken.count(INVALID_ACTION) > 0
    assert set(Counter(taken) - Counter(gold)) <= {INVALID_ACTION, IDLE_ACTION, CHECK_ACTION.text}
    along = iter(taken)
    assert all(action in along for action in gold), "the gold path, in its order"


@pytest.mark.slow
def test_the_state_is_checked_in_a_world_that_was_lost_and_is_opened_again(tmp_path: Path):
    def lose_worlds(line: TrajectoryLine) -> None:
        for key in [*EPISODES] if line.type == "event" and line.node == "act" else ():
            close_episode(key)

    context = Context(model="scripted:expert")
    whole, lost = (
        run(
            sdp.build(),
            RecordedBenchmark(gold_recordings()),
            "gold/boil:0",
            context=context,
            out=tmp_path,
            listener=listener,
        )
        for listener in (None, lose_worlds)
    )
    assert whole.certificates == lost.certificates
    assert [attempt.verdict for attempt in whole.state["attempts"]] == [a.verdict for a in lost.state["attempts"]]


@pytest.mark.slow
def test_a_language_model_is_not_an_oracle(tmp_path: Path):
    expert = create_expert(lambda *key: gold_of("boil"))

    def model(prompt: str, form: dict[str, Any]) -> Any:
        with collect_citations():  # what the expert cites does not leave the block
            answer = expert(prompt, form)
        return {**answer, "decided_by": "oracle"} if "holds" in answer else answer

    context = Context(chat=ScriptedChat(responder=model))
    recorded = RecordedBenchmark(gold_recordings())
    result = run(sdp.build(**sdp.PAPER), recorded, "gold/boil:0", context=context, out=tmp_path)
    assert {attempt.verdict.decided_by for attempt in result.state["attempts"]} == {"code", "model"}


@pytest.mark.slow
def test_only_right_verdicts_of_a_simulated_agent_are_an_oracles(tmp_path: Path):
    context = Context(model="simulated:propose=0,act=0.2,accept=0.3,reject=0.3,seed=2")
    recorded = RecordedBenchmark(gold_recordings())
    result = run(sdp.build(**sdp.PAPER), recorded, "gold/boil:0", context=context, out=tmp_path)
    gold, plan = gold_of("boil"), {state.text: state for state in gold_of("boil").states}
    right, wrong = list[bool](), list[bool]()
    for number, attempt in enumerate(result.state["attempts"], 1):
        done = count_done(gold.actions, result.state["history"][:number])
        if attempt.target.text not in plan or attempt.verdict.decided_by == "code":
            continue
        holds = done in plan[attempt.target.text].held
        (right if attempt.verdict.decided_by == "oracle" else wrong).append(holds == (attempt.verdict.depth > 0))
    assert right and all(right)
    assert False in wrong, "errors are drawn, and decided by the model"


@pytest.mark.slow
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("config", ["", "paper"])
def test_every_ablation_runs_to_an_ending_of_its_own(swap: str, config: str, tmp_path: Path):
    result = simulated("find-plant", tmp_path, swap, config)
    assert result.ending in ("goal", "world_ended", "gave_up"), result.message
    if swap == "always_pass":
        assert result.ending == "goal"
        assert result.scores and result.scores.value < 1.0, "certified is not reached"


@pytest.mark.slow
def test_the_real_simulator_refuses_a_slip_and_stays_as_it_was():
    benchmark = ScienceWorldBenchmark()
    world = benchmark.open(benchmark.task("gold/use-thermometer:0"))
    world.reset()
    before, seen = world.view(), world.step(Action(text=INVALID_ACTION))
    assert (seen.accepted, seen.data["moves"], world.view()) == (False, 0, before)
    world.close()


# ScienceWorld's demonstrations, on recorded gold paths; no simulator runs.

TASKS = ("boil", "find-plant", "use-thermometer")
"""A change, a search, a measurement whose answers are numbers of options."""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[str, GoldRecording]:
    """The gold paths by task, which demonstrations are read from."""
    found = read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")
    paths = {(one.task, one.variation, one.simplification): one for one in found}
    monkeypatch.setattr(benchmark, "load_gold_recording", lambda *key: paths[key])
    return {one.task: one for one in found}


@pytest.mark.parametrize("name", TASKS)
def test_a_demonstration_reaches_the_goal_and_is_the_same_from_anywhere(name: str, recorded: dict[str, GoldRecording]):
    world = RecordedBenchmark([recorded[name]])
    task = recorded_task(recorded[name])
    way = world.demonstration(task)
    assert world.demonstration(task, way[:2]) == way
    live = world.open(task)
    live.reset()
    scores = [live.step(Action(text=action)).data["score"] for action in way]
    assert scores[recorded[name].firstdone - 1] == 100 and live.score().value == 1.0


def test_a_way_that_ends_below_100_is_not_a_demonstration():
    values: dict[str, Any] = {"gold_actions": ["wait"], "description": "Grow it."}
    calls = {name: lambda value=value: value for name, value in values.items()}
    calls["read_state"] = lambda focus: WorldState("hallway", ())
    simulator = SimpleNamespace(load=lambda *a, **k: "A room.", step=lambda a: "You wait.", score=lambda: 50, **calls)
    with pytest.raises(Fault, match=r"the gold path of grow-plant:7 \(''\) ends at \[50\]"):
        recordings.record_gold(simulator, "grow-plant", 7)  # type: ignore[arg-type]
