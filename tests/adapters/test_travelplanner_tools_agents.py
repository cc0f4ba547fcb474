"""Agents with TravelPlanner's tools: what prompts hold, MakePlan's one more call, the expert in every graph."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime
from real_data import data_folder

from certigraph.adapters.models.schemas import schema_of
from certigraph.adapters.models.scripted import TEXT, ScriptedChat, Situation, situated
from certigraph.adapters.protocols import Context
from certigraph.adapters.travelplanner.benchmark import TravelPlanner
from certigraph.adapters.travelplanner.expert import Errand, ToolUse, errands, gold_of, left
from certigraph.adapters.travelplanner.generated import generate_world
from certigraph.adapters.travelplanner.tools import MAKE_PLAN, PLAN_ASKED, TOOLS, WRITE, Move, tool_used
from certigraph.adapters.travelplanner.written_plans import DELIVER
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.records import Action, Step
from certigraph.state.run import Belief, DecideView, Evidence, Turn

GRAPHS = ("react", "cot", "plan_and_act", "tdp")
REAL = ("2", "40", "121", "178")
"""Of three, five and seven days; easy, medium and hard; 178 takes the most calls."""

FORMS = {
    "nodes": {"nodes": {}},
    "steps": {"steps": {}},
    "status": {"reason": {}, "status": {}, "off_plan": {}, "guidance": {}, "result": {}},
    "change": {"reason": {}, "change": {}, "add": {}, "remove": {}},
    "tool": {"thought": {}, "tool": {}, "text": {}},
}


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TravelPlanner]:
    made = tmp_path_factory.mktemp("travelplanner")
    generate_world(made, seed=3, cities=16, tasks=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(made / "cache"))
        yield TravelPlanner(made, "tools")


class Mind:
    """Answers with a move and, asked for prose, with a plan; keeps the prompts."""

    def __init__(self, tool: str = MAKE_PLAN, text: str = "my request") -> None:
        self.move = {"thought": "so be it", "tool": tool, "text": text}
        self.prompts: list[str] = []

    def __call__(self, prompt: str, form: dict[str, Any]) -> Any:
        self.prompts.append(prompt)
        return "[a plan]" if form == TEXT else self.move


def decided(benchmark: TravelPlanner, mind: Mind, *, slot: str = "decide", **given: Any) -> dict[str, Any]:
    """What an operator returns to a view; `given` changes parts of the view."""
    view: DecideView = {
        "task": benchmark.tasks()[0],
        "assignment": "the assignment",
        "turns": (),
        "evidence": Evidence(view="1. a note"),
        "advice": (),
        "belief": Belief(),
    }
    runtime = Runtime(context=Context(benchmark=benchmark, chat=ScriptedChat(responder=mind)))
    return asyncio.run(benchmark.operators()[slot]({**view, **given}, runtime))


def turns(count: int, size: int = 5) -> list[Turn]:
    return [Turn(thought=f"thought {n}", action=f"look {n}", observation=f"CANARY{n} " * size) for n in range(count)]


# --- the operators


@pytest.mark.parametrize("slot", ["decide", "execute"])
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != MAKE_PLAN])
def test_a_tool_is_called_as_the_model_says(benchmark: TravelPlanner, tool: str, slot: str):
    mind = Mind(tool, " first line\nsecond </world> line ")
    update = decided(benchmark, mind, slot=slot)
    assert update["thought"] == "so be it"
    assert update["action"].kind == tool
    assert update["action"].args == {"query": "first line\nsecond   line"}
    assert update["action"].text == f"{tool}[first line second line]"
    assert len(mind.prompts) == 1


def test_what_a_model_writes_too_long_is_cut_and_not_asked_for_again(benchmark: TravelPlanner):
    mind = Mind(WRITE, "x" * 5_000)
    mind.move["thought"] = "y" * 500
    update = decided(benchmark, mind)
    assert (len(update["thought"]), len(update["action"].args["query"]), len(mind.prompts)) == (160, 1_500, 1)
    assert update["action"].args["query"].endswith(" ...")
    parts = schema_of(Move)["properties"]
    assert (parts["thought"]["maxLength"], parts["text"]["maxLength"]) == (160, 1_500)


def test_make_plan_asks_once_more_and_hands_in_what_comes_back(benchmark: TravelPlanner):
    mind = Mind()
    update = decided(benchmark, mind, turns=turns(3), advice=["the advice"], belief=Belief(notes=("the belief",)))
    assert (update["action"].kind, update["action"].args) == (DELIVER, {"plan": "[a plan]"})
    first, second = mind.prompts
    assert all(text in first for text in ("CANARY2", "the advice", "the belief", "1. a note", "the assignment"))
    assert all(text in second for text in ("my request", "the assignment", "1. a note", '"current_city"'))
    assert not any(text in second for text in ("CANARY", "look 1", "thought 1", "the advice", "the belief"))


def test_the_latest_answer_is_read_whole_and_earlier_ones_in_brief(benchmark: TravelPlanner):
    mind = Mind("CitySearch", "Texas")
    decided(benchmark, mind, turns=turns(3, size=300))
    [prompt] = mind.prompts
    assert prompt.count("CANARY2") == 300
    assert 0 < prompt.count("CANARY1") < 20


@pytest.mark.parametrize("tool", ["CitySearch", MAKE_PLAN])
def test_prompts_are_bounded_whatever_grows(benchmark: TravelPlanner, tool: str):
    mind = Mind(tool, "z" * 1500)
    long = "word " * 4000
    decided(
        benchmark,
        mind,
        assignment=long,
        turns=turns(40, size=1000),
        evidence=Evidence(view=long),
        advice=[long] * 20,
        belief=Belief(notes=(long,) * 20),
    )
    assert max(map(len, mind.prompts)) < 12_000


def test_the_last_advice_is_told_however_much_there_is(benchmark: TravelPlanner):
    mind = Mind("CitySearch", "Texas")
    decided(benchmark, mind, advice=[*["outcome " * 50] * 9, "Now: write it down"])
    assert "Now: write it down" in mind.prompts[0]


def test_a_long_note_is_whole_in_the_arguments_and_short_in_the_text():
    action = tool_used(WRITE, "x" * 900)
    assert (len(action.args["query"]), len(action.text)) == (900, 175)  # type: ignore[arg-type]


# --- the expert's answers


def made(benchmark: TravelPlanner, task_id: str) -> list[Errand]:
    return errands(gold_of(benchmark, benchmark.query(benchmark.task(task_id))))


def answered(
    benchmark: TravelPlanner, form: str, *, goal: str = "", history: Sequence[Step] = (), task: str = "3"
) -> Any:
    """The expert's answer in a run of a query, or of the sub-task that `goal` specifies."""
    found = benchmark.task(task)
    state = {"task": found.model_copy(update={"goal": goal or found.goal}), "history": history}
    with situated(Situation("any", 1, state)):
        expert = benchmark.expert()
        assert expert
        return expert("?", {"type": "object", "properties": FORMS[form]})


def steps(calls: Sequence[ToolUse]) -> list[Step]:
    return [Step(action=tool_used(*call), digest="") for call in calls]


def test_the_expert_decomposes_into_a_graph_with_one_end(benchmark: TravelPlanner):
    for task in benchmark.tasks():
        nodes = answered(benchmark, "nodes", task=task.id)["nodes"]
        several = len(benchmark.trip(benchmark.query(task)).cities) > 1
        inner = ["transport", "stay", "meals", "sights"]
        assert [node["id"] for node in nodes] == [*["cities"][: int(several)], *inner, "plan"]
        assert all(node["needs"] == ["cities"][: int(several)] for node in nodes if node["id"] in inner)
        assert set(nodes[-1]["needs"]) == {node["id"] for node in nodes[:-1]}
        assert all(len(node["task"]) <= 300 for node in nodes)
        query = benchmark.query(task)
        party = "one person" if query.people_number == 1 else f"{query.people_number} people"
        assert party in nodes[-5]["task"] and all(date in nodes[-5]["task"] for date in (query.date[0], query.date[-1]))


def test_a_subtask_is_known_by_its_specification_and_worked_off_after_its_predecessors(benchmark: TravelPlanner):
    before: list[Step] = []
    for node, errand in zip(answered(benchmark, "nodes")["nodes"], made(benchmark, "3"), strict=True):
        for number, call in enumerate(errand.calls):
            history = [*before, *steps(errand.calls[:number])]
            here: dict[str, Any] = {"goal": f"{node['task']} A fact was added.", "history": history}
            move, judged = answered(benchmark, "tool", **here), answered(benchmark, "status", **here)
            assert (move["tool"], move["text"]) == call
            assert judged["status"] == "needs_more_steps"
            assert len(answered(benchmark, "steps", **here)["steps"]) == len(errand.calls) - number
        before += steps(errand.calls)
        judged = answered(benchmark, "status", goal=node["task"], history=before)
        assert (judged["status"], judged["off_plan"]) == ("completed", False)
        assert bool(judged["result"]) == (errand.id != "plan")
    assert answered(benchmark, "change") == answered(benchmark, "change") | {"change": [], "add": [], "remove": []}


def test_the_experts_plan_has_what_its_prompt_has_noted_and_no_more(benchmark: TravelPlanner):
    gold = gold_of(benchmark, benchmark.query(benchmark.task("3")))
    days = gold.draft.plan(gold.trip)
    expert, told = benchmark.expert(), [PLAN_ASKED, *(str(value) for value in days[0].values())]
    with situated(Situation("any", 1, {"task": benchmark.task("3"), "history": ()})):
        assert expert
        first, *others = json.loads(expert(" ".join(told), TEXT))
    assert first == days[0]
    assert all(day[meal] == "-" for day in others for meal in ("breakfast", "lunch", "dinner"))
    assert [day["current_city"] for day in others] == [day["current_city"] for day in days[1:]]


def test_what_is_not_of_the_errand_throws_nobody_off():
    calls = (ToolUse("CitySearch", "Texas"), ToolUse(WRITE, "a"))
    other = Step(action=Action(text="look around"), digest="")
    assert left(calls, [other, *steps(calls[1:]), *steps(calls[:1]), other]) == calls[1:]
    assert left(calls, [*steps(calls), *steps(calls)]) == ()


# --- the expert in the graphs


def ran(graph: str, benchmark: TravelPlanner, task_id: str, out: Path) -> Result:
    return run(graph, benchmark, task_id, context=Context(model="scripted:expert"), out=out)


def notebook(result: Result) -> str:
    written = [step.action.args["query"] for step in result.state["history"] if step.action.kind == WRITE]
    return "\n".join(map(str, written))


def test_react_delivers_a_plan_that_passes_and_stands_in_its_notebook(benchmark: TravelPlanner, tmp_path: Path):
    for task in benchmark.tasks():
        result = ran("react", benchmark, task.id, tmp_path)
        assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0)
        assert len(result.state["history"]) <= benchmark.limits.steps
        days = json.loads(result.state["action"].args["plan"])
        entries = {day[key] for day in days for key in ("transportation", "dinner", "attraction", "accommodation")}
        assert all(entry.replace("\n", "\\n") in notebook(result) for entry in entries - {"-"})


@pytest.mark.slow
@pytest.mark.parametrize("task_id", REAL)
def test_react_passes_real_queries(tmp_path: Path, task_id: str):
    result = ran("react", TravelPlanner(data_folder("travelplanner"), "tools"), task_id, tmp_path)
    assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0)
    assert len(result.state["history"]) <= 30


@pytest.mark.parametrize("graph", GRAPHS[1:])
def test_the_other_planners_deliver_it_too(benchmark: TravelPlanner, tmp_path: Path, graph: str):
    for task in benchmark.tasks()[:3]:
        result = ran(graph, benchmark, task.id, tmp_path)
        assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0)


def test_where_nothing_is_affordable_something_is_delivered_all_the_same(benchmark: TravelPlanner):
    query = benchmark.query(benchmark.tasks()[0]).model_copy(update={"budget": 60})
    found = gold_of(benchmark, query)
    assert len(found.draft.plan(found.trip)) == query.days
    assert errands(found)[-1].calls[0].tool == MAKE_PLAN


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
def test_all_real_queries_are_planned_with_tools(tmp_path: Path, graph: str):
    real = TravelPlanner(data_folder("travelplanner"), "tools")
    results = [ran(graph, real, task.id, tmp_path) for task in real.tasks()]
    assert [result.scores and result.scores.value for result in results] == [1.0] * 120
    assert max(len(result.state["history"]) for result in results) <= 30
