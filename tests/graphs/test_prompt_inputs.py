"""Inputs that stand in the prompts an endpoint receives: what the world answered, and what other roles wrote.

The endpoint logs what it is sent and answers by form. Nothing here tests a prompt's wording; all texts that are looked
for come from a world, a task or an answer.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from helpers.servers.logging_endpoint import DEFAULT_WINDOW, Answers, LoggingEndpoint, logging_endpoint
from helpers.worlds.recorded_benchmark import RecordedBenchmark
from helpers.worlds.recorded_worlds import recorded_task

import certigraph
from certigraph.adapters.models.profiles import estimate_tokens
from certigraph.benchmarks.scienceworld import operators as scienceworld
from certigraph.benchmarks.scienceworld.prompts import PLACES
from certigraph.benchmarks.scienceworld.recordings import GoldRecording, read_recordings
from certigraph.graphs import ircot, iter_retgen, memgpt, pbai, react
from certigraph.nodes import decisions
from certigraph.nodes.gates import no_gate
from certigraph.runtime.prompts import collect_prompts


@pytest.fixture(autouse=True, scope="module")
def _words_alone() -> Iterator[None]:
    """No sentence vectors: written actions are the world's own, and torch takes seconds to load."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (decisions, scienceworld):
            patch.setattr(module, "find_encoder", lambda name: None)
        yield


@cache
def recordings() -> dict[str, GoldRecording]:
    found = read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")
    return {recording.task: recording for recording in found}


def play(graph: str, family: str, answers: Answers, out: Path) -> LoggingEndpoint:
    """Run a graph on a recorded task of ScienceWorld against an endpoint, and return the endpoint with its log."""
    recording = recordings()[family]
    live, task = RecordedBenchmark([recording]), recorded_task(recording).id
    return run_logged(graph, live, task, answers, out, options=1, trials=1)  # with one option, actions are written


def run_logged(
    graph: Any,
    world: str | certigraph.Benchmark,
    task: str,
    answers: Answers,
    out: Path,
    *,
    window: int = DEFAULT_WINDOW,
    **limits: Any,
) -> LoggingEndpoint:
    live = certigraph.load_benchmark(world) if isinstance(world, str) else world
    with logging_endpoint(answers, window) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CERTIGRAPH_BASE_URL", endpoint.url)
        patch.setenv("OPENAI_API_KEY", "none")
        context = certigraph.Context(
            model="openai:stub",
            limits=live.limits.model_copy(update=limits),
            budget=certigraph.Budget(calls=90),
        )
        result = certigraph.run(graph, live, task, context=context, out=out, on_error="ignore")
    assert not result.failed, result.message
    return endpoint


def actions_of(family: str, *more: str, until: str = "") -> list[dict[str, str]]:
    """The gold actions of a recorded task as answers, up to the one that begins with `until`, and more."""
    gold = recordings()[family].gold
    last = next(n for n, action in enumerate(gold, 1) if action.startswith(until)) if until else len(gold)
    return [{"action": action, "thought": ""} for action in (*gold[:last], *more)]


# SDP: a recipe that was read.

RECIPE = "you need to mix sodium chloride, water"
"""Words of the recipe, which the world shows once, where it is read."""


@pytest.fixture(scope="module")
def after_the_recipe(tmp_path_factory: pytest.TempPathFactory) -> LoggingEndpoint:
    """A run of SDP that reads the recipe, certifies that, judges the next target as unreachable, and replans."""
    reading = next(n for n, action in enumerate(recordings()["chemistry-mix"].gold) if action.startswith("read recipe"))
    known = {"holds": 1, "reason": "it was read", "established": [f"To make salt water, {RECIPE}."], "reachable": True}
    missing = {"holds": 0, "reason": "no", "reachable": True}
    answers = {
        "Conditions": [{"conditions": ["The recipe was read.", "Salt water was made.", "It was tasted."]}],
        "NextAction": actions_of("chemistry-mix"),
        "FullHolds": [
            *[missing] * reading,
            known,
            missing,
            missing,
            {"holds": 0, "reason": "never", "reachable": False},
        ],
    }
    return play("sdp:paper", "chemistry-mix", answers, tmp_path_factory.mktemp("sdp"))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["NextAction", "FullHolds", "Conditions"])
def test_a_recipe_that_was_read_stands_in_the_next_prompt_of_every_role(form: str, after_the_recipe: LoggingEndpoint):
    forms = [request.form for request in after_the_recipe.received]
    shown = [RECIPE in request.text for request in after_the_recipe.received]
    reading = shown.index(True)
    assert forms[reading] == "FullHolds", "the checker sees the recipe first, as the world's answer"
    assert form in forms[:reading], "requests before the recipe was read"
    later = [has for name, has in zip(forms[reading + 1 :], shown[reading + 1 :], strict=True) if name == form]
    assert later
    assert all(later)


# TDP: specifications and outcomes of 2,000 characters.


def words(label: str, length: int = 2_000) -> str:
    text = " ".join(f"{label}{number}" for number in range(length))
    return text[:length].rpartition(" ")[0]


SPECIFICATION, OUTCOME, LAST = words("spec"), words("found"), "lift the last block"


@pytest.fixture(scope="module")
def two_subtasks(tmp_path_factory: pytest.TempPathFactory) -> LoggingEndpoint:
    nodes = [
        {"id": "n1", "task": SPECIFICATION, "needs": []},
        {"id": "n2", "task": LAST, "needs": ["n1"]},
    ]
    going = {"status": "needs_more_steps", "reason": "not yet"}
    answers = {
        "Subtasks": [{"nodes": nodes}],
        "Plan": [{"steps": ["take one", "take two"]}],
        "SupervisorJudgement": [
            {**going, "off_plan": True},
            {"status": "completed", "reason": "done", "result": OUTCOME},
            going,
            {"status": "completed", "reason": "done", "result": "all of it"},
        ],
    }
    return run_logged("tdp:paper", "blocksworld", "6-2", answers, tmp_path_factory.mktemp("tdp"))


@pytest.mark.parametrize("form", ["Plan", "choice", "SupervisorJudgement"])
def test_a_long_specification_is_whole_for_planner_executor_and_supervisor(form: str, two_subtasks: LoggingEndpoint):
    first = [text for text in two_subtasks.texts(form) if "spec0" in text]
    assert len(first) == 2, "the first sub-task takes two actions, and is replanned between them"
    assert all(SPECIFICATION in text for text in first)


@pytest.mark.parametrize("form", ["Plan", "choice", "SupervisorJudgement"])
def test_a_long_outcome_is_whole_for_the_sub_task_that_needs_it(form: str, two_subtasks: LoggingEndpoint):
    second = [text for text in two_subtasks.texts(form) if LAST in text]
    assert second
    assert all(OUTCOME in text for text in second)


def test_a_long_outcome_is_whole_for_self_revision(two_subtasks: LoggingEndpoint):
    revisions = two_subtasks.texts("Changes")
    assert revisions
    assert all(OUTCOME in text for text in revisions)


# ReAct: a history of forty steps.


class Pages(certigraph.Environment):
    """World in which every step shows another text of so many characters, up to a last one."""

    shown = 0

    def __init__(self, name: str, characters: int, last: int = 0) -> None:
        self.name, self.characters, self.last = name, characters, last

    def reset(self) -> certigraph.Observation:
        return certigraph.Observation(text="an empty page")

    def step(self, action: certigraph.Action) -> certigraph.Observation:
        self.shown += 1
        text = words(f"{self.name}{self.shown}-", self.characters)
        return certigraph.Observation(text=text, sources=(f"p{self.shown}",), done=self.shown == self.last)

    def score(self) -> certigraph.Scores:
        return certigraph.Scores(value=0.0)


class Diaries(certigraph.Benchmark):
    name, limits = "diaries", certigraph.Limits(steps=60, repeats=0)

    def tasks(self, split: str = "") -> list[certigraph.Task]:
        return [certigraph.Task(benchmark=self.name, id="1", goal="fill the pages")]

    def open(self, task: certigraph.Task) -> Pages:
        return Pages("page", 1_200, last=45)


@pytest.mark.slow
def test_react_at_step_40_still_sees_step_1_whole(tmp_path: Path):
    acts = [{"action": f"write line {number}", "thought": f"idea {number}"} for number in range(1, 50)]
    texts = run_logged("react", Diaries(), "1", {"Thought": acts}, tmp_path).texts("Thought")
    assert len(texts) == 45
    for part in ("write line 1\n", "idea 1\n", words("page1-", 1_200)):
        assert part in texts[40]
        assert part not in texts[0]


# Search agents: rounds left, and all passages whole.


def passage(number: int) -> str:
    return words(f"passage{number}-", 2_500)


class Shelves(Diaries):
    name, answers, instant = "shelves", True, True

    def open(self, task: certigraph.Task) -> Pages:
        return Pages("passage", 2_500)


def seek(graph: Any, out: Path, *, window: int = DEFAULT_WINDOW, **limits: Any) -> LoggingEndpoint:
    moves = [{"tool": "search", "text": f"query {number} of {number * 7}"} for number in range(60)]
    answers = {
        "Move": moves,
        "ManagedMove": moves,
        "Sentence": [{"sentence": move["text"]} for move in moves],
        "Generation": [{"generation": move["text"]} for move in moves],
    }
    return run_logged(graph, Shelves(), "1", answers, out, window=window, **limits)


SEARCH_AGENTS = {
    "ircot": (ircot.build(), "Sentence"),
    "react": (react.build(gate=no_gate), "Move"),
    "memgpt": (memgpt.build(), "ManagedMove"),
    "iter_retgen": (iter_retgen.build(), "Generation"),
    "pbai": (pbai.build(gate=no_gate, memory="native"), "Move"),
}
"""Graphs of search agents, and the forms with which they choose."""

STEPS, ROUNDS = 37, 17
"""Limits whose numbers stand nowhere else in a prompt."""


def counted(text: str, most: int) -> int:
    """The other number of the last line that names `most`."""
    line = next(line for line in text.splitlines()[::-1] if re.search(rf"\b{most}\b", line))
    return next(number for number in map(int, re.findall(r"\d+", line)) if number != most)


@pytest.mark.slow
@pytest.mark.parametrize("agent", SEARCH_AGENTS)
def test_a_search_agent_sees_how_many_rounds_are_left(agent: str, tmp_path: Path):
    graph, form = SEARCH_AGENTS[agent]
    texts = seek(graph, tmp_path, rounds=ROUNDS).texts(form)
    unasked = ROUNDS - len(texts)  # the first query may be the question
    assert unasked in (0, 1)
    assert [counted(text, ROUNDS) for text in texts[1 - unasked :]] == [*range(ROUNDS - 1, 0, -1)]


@pytest.mark.slow
def test_fewer_steps_than_rounds_leave_fewer_rounds(tmp_path: Path):
    texts = seek(ircot.build(), tmp_path, rounds=ROUNDS, steps=5).texts("Sentence")
    assert [counted(text, ROUNDS) for text in texts] == [4, 3, 2, 1]


@pytest.mark.slow
@pytest.mark.parametrize("agent", [agent for agent in SEARCH_AGENTS if agent != "iter_retgen"])
def test_a_search_agent_sees_all_passages_whole(agent: str, tmp_path: Path):
    graph, form = SEARCH_AGENTS[agent]
    last = seek(graph, tmp_path, rounds=15).texts(form)[-1]
    assert [number for number in range(1, 15) if passage(number) not in last] == []


@pytest.mark.slow
@pytest.mark.parametrize("agent", [agent for agent in SEARCH_AGENTS if agent != "iter_retgen"])
def test_a_search_agent_s_prompts_fit_into_its_window(agent: str, tmp_path: Path):
    graph, form = SEARCH_AGENTS[agent]
    texts = seek(graph, tmp_path, window=16_000, rounds=30).texts(form)
    assert 6_000 < max(map(estimate_tokens, texts)) < 12_100
    assert passage(len(texts) - 1) in texts[-1]
    assert passage(1) not in texts[-1]


# STEP: no location before the first action, moves in every prompt.


def places() -> Iterator[str]:
    """The clauses that say where things usually are."""
    for line in PLACES.splitlines()[2:]:
        for clause in line.removeprefix("- ").split("; "):
            if ", " in (named := clause.partition(": ")[2] or clause):
                yield named


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["step", "clin", "react", "sdp:paper"])
def test_the_first_prompt_names_no_place_of_a_thing(graph: str, tmp_path: Path):
    acts = actions_of("boil", until="look around")
    log = play(graph, "boil", {**LIMITED_ANSWERS, **dict.fromkeys(ACTING_FORMS, acts)}, tmp_path)
    assert len([*places()]) >= 10
    for text in (log.received[0].text, log.received[1].text):
        assert [clause for clause in places() if clause in text] == []


ACTING_FORMS = ("NextAction", "NextActions", "SubtaskMove", "Thought")
LIMITED_ANSWERS = {
    "Conditions": [{"conditions": ["The water is hot.", "The water boils."]}],
    "Next": [{"subtask": "boil the water"}],
    "Subtasks": [{"nodes": [{"id": "n1", "task": "boil the water", "needs": []}]}],
    "Plan": [{"steps": ["heat it"]}],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "form", "used"),
    [
        ("tdp:paper", "Subtasks", [0]),
        ("tdp:paper", "Plan", [0, 1, 2]),
        ("tdp:paper", "choice", [0, 1, 2]),
        ("tdp:paper", "Changes", [3]),
        ("plan_and_act", "Plan", [0, 1, 2]),
        ("plan_and_act", "choice", [0, 1, 2]),
        ("plan_and_solve", "Plan", [0]),
        ("plan_and_solve", "choice", [0, 1, 2]),
    ],
)
def test_steps_used_and_allowed_stand_in_the_prompts_of_planners_and_executors(
    graph: str, form: str, used: list[int], tmp_path: Path
):
    going, done = {"status": "needs_more_steps", "off_plan": True}, {"status": "completed", "result": "it is done"}
    answers = {
        "Subtasks": [{"nodes": [{"id": "n1", "task": "lift all", "needs": []}]}],
        "Plan": [{"steps": ["take one", "take two"]}],
        "SupervisorJudgement": [going, going, done],
    }
    texts = run_logged(graph, "blocksworld", "6-2", answers, tmp_path, steps=STEPS, repeats=3).texts(form)
    assert [counted(text, STEPS) for text in texts][:3] == used


@pytest.mark.slow
@pytest.mark.parametrize("form", ["Plan", "choice"])
def test_the_steps_before_a_sub_task_are_not_counted_as_its_own(form: str, two_subtasks: LoggingEndpoint):
    second = next(text for text in two_subtasks.texts(form) if LAST in text)
    whole = certigraph.load_benchmark("blocksworld").limits.effective().steps
    assert counted(second, whole - 2) == 0, "the first sub-task took two"


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["react", "sdp", "step", "tdp"])
def test_moves_are_counted_in_the_prompts_of_step_s_protocol_on_the_simulator(graph: str):
    collected = collect_prompts(graph, certigraph.load_benchmark("scienceworld"), "step-18/boil:1", steps=4)
    assert collected.steps == 4
    lines = [line for p in collected.sent for line in p.user.splitlines() if line.startswith("Moves used: ")]
    # the simulator ends an episode of 70 moves with the 71st
    assert {"Moves used: 0, 71 left.", "Moves used: 1, 70 left."} <= {*lines}
