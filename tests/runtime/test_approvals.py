"""Runs that stop at a question to a person, and resume with the answer."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.children import child_environment
from helpers.worlds.support_database import GOAL, SCRIPT, SupportDatabase, scripted_model
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.world import Case, Tools
from certigraph.cli import main
from certigraph.graphs import plan_and_act, react, sdp, step, tdp
from certigraph.nodes.approval import approvals
from certigraph.nodes.sdp import validate
from certigraph.runtime.approvals import match_answers, parse_answer, question_lines
from certigraph.runtime.report import write_report
from certigraph.runtime.result import Result
from certigraph.runtime.run import aresume, arun, resume, run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.tools import calls_of
from certigraph.state.trajectory import Question

METHODS: Mapping[str, Callable[..., Any]] = {
    "sdp": sdp.build,
    "react": react.build,
    "step": step.build,
    "tdp": tdp.build,
    "plan_and_act": plan_and_act.build,
}
APPROVE = {"type": "approve"}


def tools_of(database: SupportDatabase) -> Tools:
    return Tools(
        database.tools,
        cases=[Case(id="17", goal=GOAL)],
        effects={"look_up": "repeatable"},
        check=lambda episode: bool(database.rows("refunds")) and bool(database.rows("mails")),
    )


class Started:
    """A run of a method on customer support that stopped where the refund needs approval."""

    def __init__(self, folder: Path, method: str, rules: Any = None, chat: ScriptedChat | None = None) -> None:
        self.database, self.chat = SupportDatabase(folder / "desk.sqlite"), chat or scripted_model()
        self.graph = METHODS[method](approve=approvals(rules or {"refund": True}))
        self.tools = tools_of(self.database)
        self.result = run(self.graph, self.tools, context=Context(chat=self.chat), out=folder / "runs")

    def resume(self, answer: Any = None) -> Result:
        return resume(self.result.folder, answer=answer, benchmark=self.tools, graph=self.graph, chat=self.chat)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_an_approved_call_is_made(tmp_path: Path, method: str):
    started = Started(tmp_path, method)
    assert started.result.ending == "interrupted"
    (question,) = started.result.questions
    assert isinstance(question, dict)
    assert question["action_requests"][0]["args"] == {"order": 17, "amount": 49.9}  # type: ignore[index,call-overload]
    assert started.database.rows("refunds") == []
    ended = started.resume(APPROVE)
    assert ended.ending in ("goal", "finished")
    assert ended.scores
    assert ended.scores.value == 1
    assert (ended.questions, len(started.database.rows("refunds")), len(started.database.rows("mails"))) == ([], 1, 1)
    assert Result(started.result.folder).ending == ended.ending


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_run_with_approvals_makes_no_more_model_calls(tmp_path: Path, method: str):
    plain = run(
        METHODS[method](),
        tools_of(SupportDatabase(tmp_path / "other.sqlite")),
        context=Context(chat=scripted_model()),
        out=tmp_path / "runs",
    )
    rules = {"look_up": True, "refund": True, "send_mail": True}
    started = Started(tmp_path, method, rules)
    result, answered = started.result, 0
    while result.questions:
        result, answered = started.resume(APPROVE), answered + 1
    assert answered == 3
    assert result.usage.calls == plain.usage.calls
    assert (len(started.database.rows("refunds")), len(started.database.rows("mails"))) == (1, 1)


class Repeating:
    """A scripted model that refunds five orders one by one and counts its own calls."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, prompt: str, schema: Schema) -> Any:
        self.prompts.append(prompt)
        order = len(self.prompts)
        call = {"name": "refund", "args": {"order": order, "amount": 1.0}}
        done = {"name": "finish", "args": {"answer": "done"}}
        return {"thought": "", "calls": [call if order <= 5 else done]}


@pytest.mark.slow
def test_five_approvals_are_five_model_calls(tmp_path: Path):
    responder = Repeating()
    started = Started(tmp_path, "react", chat=ScriptedChat(responder=responder))
    result = started.result
    for number in range(1, 6):
        assert len(responder.prompts) == number
        assert result.usage.calls == number
        result = started.resume(APPROVE)
    assert [row[0] for row in started.database.rows("refunds")] == [1, 2, 3, 4, 5]
    assert (result.usage.calls, len(responder.prompts)) == (6, 6)  # the last one hands in the answer


@pytest.mark.slow
def test_an_edited_call_is_what_runs(tmp_path: Path):
    started = Started(tmp_path, "sdp")
    ended = started.resume({"type": "edit", "edited_action": {"name": "refund", "args": {"order": 17, "amount": 20.0}}})
    assert started.database.rows("refunds") == [(17, 20.0)]
    made = [call for step in ended.state["history"] for call in calls_of(step.action) if call.name == "refund"]
    assert [call.args["amount"] for call in made] == [20.0]


def test_the_reason_of_a_rejection_reaches_the_next_prompt(tmp_path: Path):
    responder = Repeating()
    started = Started(tmp_path, "react", chat=ScriptedChat(responder=responder))
    started.resume({"type": "reject", "message": "order 1 was a gift"})
    assert started.database.rows("refunds") == []
    assert "order 1 was a gift" in responder.prompts[-1]
    assert "order 1 was a gift" not in responder.prompts[0]


def test_resuming_without_an_answer_names_the_question_and_changes_nothing(tmp_path: Path):
    started = Started(tmp_path, "sdp")
    path = started.result.folder / "trajectory.jsonl"
    before = path.read_bytes()
    with pytest.raises(UnknownName, match=r"refund\(order=17, amount=49.9\).* certigraph resume .* --answer"):
        started.resume()
    assert path.read_bytes() == before


@pytest.mark.slow
def test_an_answer_that_cannot_be_used_leaves_the_question_open(tmp_path: Path):
    started = Started(tmp_path, "sdp")
    for wrong in ("yes", [APPROVE, APPROVE], {"type": "edit", "edited_action": {"name": "no_tool", "args": {}}}):
        kept = started.resume(wrong)
        assert (kept.ending, len(kept.questions)) == ("interrupted", 1)
        (line,) = question_lines(kept.trajectory.questions)
        assert str(kept.questions[0]["problem"]) in line  # type: ignore[index,call-overload]
    ended = started.resume(APPROVE)
    assert ended.scores
    assert ended.scores.value == 1


@pytest.mark.slow
def test_an_answer_that_an_operator_refuses_leaves_the_question_open(tmp_path: Path):
    async def strict(state: Any, runtime: Any) -> Any:
        if interrupt("Go on?") != "yes":
            raise Fault("data", "the answer is yes or nothing")
        return await validate(state, runtime)

    tools, graph = tools_of(SupportDatabase(tmp_path / "desk.sqlite")), sdp.build(validate=strict)
    folder = run(graph, tools, context=Context(chat=scripted_model()), out=tmp_path).folder
    with pytest.raises(Fault, match="the answer is yes or nothing"):
        resume(folder, answer="no", benchmark=tools, graph=graph, chat=scripted_model())
    while (result := Result(folder)).questions == ["Go on?"]:
        resume(folder, answer="yes", benchmark=tools, graph=graph, chat=scripted_model())
    assert result.ending == "goal"


@pytest.mark.slow
def test_an_answer_to_no_question_is_refused(tmp_path: Path):
    database = SupportDatabase(tmp_path / "desk.sqlite")
    tools, calls = tools_of(database), list[int]()

    async def broken(state: Any, runtime: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("once")
        return await validate(state, runtime)

    graph = sdp.build(validate=broken)
    result = run(graph, tools, context=Context(chat=scripted_model()), out=tmp_path, on_error="ignore")
    assert result.ending == "error:operator"
    with pytest.raises(Fault, match="waits for no answer"):
        resume(result.folder, answer=APPROVE, benchmark=tools, graph=graph, chat=scripted_model())
    ended = resume(result.folder, benchmark=tools, graph=graph, chat=scripted_model())
    assert ended.ending == "goal"


# --- an operator of the user's own, and a graph of the user's own


async def confirmed(state: Any, runtime: Any) -> Any:
    """Validate, after a person confirmed twice what is to be checked."""
    if any(call.name == "refund" for call in calls_of(state["action"])):
        first = interrupt("Is it refunded?")
        CONFIRMED.append((first, interrupt({"field": "mail"})))
    return await validate(state, runtime)


CONFIRMED: list[Any] = []


@pytest.mark.slow
def test_an_operator_of_the_user_asks_twice(tmp_path: Path):
    CONFIRMED.clear()
    tools, graph = tools_of(SupportDatabase(tmp_path / "desk.sqlite")), sdp.build(validate=confirmed)

    async def go() -> Result:
        result = await arun(graph, tools, context=Context(chat=scripted_model()), out=tmp_path)
        assert result.questions == ["Is it refunded?"]
        result = await aresume(result.folder, answer="it is", benchmark=tools, graph=graph, chat=scripted_model())
        assert result.questions == [{"field": "mail"}]
        return await aresume(result.folder, answer=[1, 2], benchmark=tools, graph=graph, chat=scripted_model())

    ended = asyncio.run(go())
    assert ended.ending == "goal"
    assert CONFIRMED == [("it is", [1, 2])]


class Two(TypedDict, total=False):
    messages: list[Any]
    left: str
    right: str
    third: int


def test_parallel_nodes_of_an_own_graph_are_answered_together(tmp_path: Path):
    made: list[str] = []

    def left(state: Two) -> Two:
        return {"left": interrupt("left?")}

    def right(state: Two) -> Two:
        return {"right": interrupt("right?")}

    def third(state: Two) -> Two:
        made.append("third")
        return {"third": len(made)}

    builder = StateGraph(Two)
    for node in (left, right, third):
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
        builder.add_edge(node.__name__, END)
    graph, tools = builder.compile(name="two"), tools_of(SupportDatabase(tmp_path / "desk.sqlite"))
    result = run(graph, tools, out=tmp_path)
    assert result.questions == ["left?", "right?"]
    with pytest.raises(Fault, match="waits for 2 answers"):
        resume(result.folder, answer="one", benchmark=tools, graph=graph)
    ended = resume(result.folder, answer=["L", "R"], benchmark=tools, graph=graph)
    assert (ended.ending, made) == ("finished", ["third"])
    state = {key: ended.state[key] for key in ("left", "right", "third")}
    assert state == {"left": "L", "right": "R", "third": 1}


# --- the outcome of a call that is not known


class Died(BaseException):
    """The end of the process in the middle of a call."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decision", "refunds", "label"),
    [
        ({"type": "happened", "result": "refunded 17"}, 1, "it happened, as a person answered"),
        ({"type": "repeat"}, 2, "made again, as a person decided"),
    ],
)
def test_a_call_of_unknown_outcome_is_decided_by_a_person(
    decision: dict[str, str], refunds: int, label: str, tmp_path: Path
):
    def die(name: str) -> None:
        if name == "refunded" and not dead:
            dead.append(1)
            raise Died

    dead: list[int] = []
    database = SupportDatabase(tmp_path / "desk.sqlite", before=die)
    tools, graph = tools_of(database), sdp.build()
    with pytest.raises(Died):
        run(graph, tools, context=Context(chat=scripted_model()), out=tmp_path / "runs")
    (folder,) = (tmp_path / "runs").iterdir()
    result = resume(folder, benchmark=tools, graph=graph, chat=scripted_model())
    (question,) = result.questions
    assert isinstance(question, dict)
    assert question["type"] == "unknown_outcome"
    resume(
        folder, answer={"type": "maybe"}, benchmark=tools, graph=graph, chat=scripted_model()
    )  # the question comes again
    ended = resume(folder, answer={"decisions": [decision]}, benchmark=tools, graph=graph, chat=scripted_model())
    assert (ended.ending, len(database.rows("refunds")), len(database.rows("mails"))) == ("goal", refunds, 1)
    page = write_report(ended).read_text(encoding="utf-8")
    assert page.count(f'<span class="pill">{label}</span>') == 2, "beside the step, and in the box of effects"


CHILD = """
import os, signal, sys
from pathlib import Path
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.world import Tools
from certigraph.runtime.run import run

def kill(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

tools = Tools(SupportDatabase(Path(sys.argv[1]) / "desk.sqlite", before=kill).tools, cases=[GOAL])
run("sdp", tools, context=Context(chat=scripted_model()), out=Path(sys.argv[1]) / "runs")
"""


def resume_as_a_person(folder: Path) -> tuple[Result, SupportDatabase, int]:
    """Resume the run of a killed process; who decides on a call looks into the database."""
    database, answered = SupportDatabase(folder / "desk.sqlite"), 0
    (run_folder,) = (folder / "runs").iterdir()
    tools = Tools(database.tools, cases=[GOAL])
    result = resume(run_folder, benchmark=tools, chat=scripted_model())
    while result.questions:
        (question,) = result.questions
        assert isinstance(question, dict)
        (call,) = question["calls"]  # type: ignore[misc]
        table = {"refund": "refunds", "send_mail": "mails"}[call["name"]]  # type: ignore[index,call-overload]
        text = {"refund": "refunded 17", "send_mail": "mail sent"}[call["name"]]  # type: ignore[index,call-overload]
        answer = {"type": "happened", "result": text} if database.rows(table) else {"type": "repeat"}
        result, answered = resume(run_folder, answer=answer, benchmark=tools, chat=scripted_model()), answered + 1
    return result, database, answered


def kill_at(folder: Path, moment: str) -> None:
    child = subprocess.run([sys.executable, "-c", CHILD, str(folder), moment], env=child_environment(), check=False)
    assert child.returncode == -signal.SIGKILL


MOMENTS = ("refund", "refunded", "send_mail", "mail_sent")


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_has_one_refund_and_one_mail(tmp_path: Path, moment: str):
    kill_at(tmp_path, moment)
    result, database, answered = resume_as_a_person(tmp_path)
    assert (result.ending, answered, len(database.rows("refunds")), len(database.rows("mails"))) == ("goal", 1, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS[1:3])
def test_a_killed_run_on_a_server_has_one_refund_and_one_mail(tmp_path: Path, used: object, moment: str):
    kill_at(tmp_path, moment)
    result, database, answered = resume_as_a_person(tmp_path)
    assert (result.ending, answered, len(database.rows("refunds")), len(database.rows("mails"))) == ("goal", 1, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sdp", "react"])
def test_an_approved_call_is_made_with_checkpoints_on_a_server(tmp_path: Path, used: object, method: str):
    test_an_approved_call_is_made(tmp_path, method)


@pytest.mark.slow
def test_an_operator_of_the_user_asks_twice_with_checkpoints_on_a_server(tmp_path: Path, used: object):
    test_an_operator_of_the_user_asks_twice(tmp_path)


# --- what a user sees


@pytest.mark.slow
def test_the_command_line_shows_and_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "desk_package.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["run", "desk_package:build", "desk_package:world", "--model", "scripted:expert"])
    output = capsys.readouterr().out
    assert ended.value.code == 3
    assert "certigraph resume" in output
    assert output.count("waits for an answer: Approve refund(order=17") == 1
    (folder,) = (tmp_path / "runs").iterdir()
    with pytest.raises(SystemExit) as ended:
        main(["resume", str(folder)])
    assert ended.value.code == 3
    assert "--answer" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["resume", str(folder), "--answer", json.dumps(APPROVE), "--json"])
    fields = json.loads(capsys.readouterr().out)
    assert (ended.value.code, fields["ending"], fields["questions"]) == (0, "goal", [])


OWN_MODULE = """
from pathlib import Path

from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model

from certigraph import Tools
from certigraph.graphs import sdp
from certigraph.nodes.approval import approvals

world = Tools(SupportDatabase(Path("desk.sqlite")).tools, cases=[GOAL], expert=scripted_model().responder)


def build():
    return sdp.builder(approve=approvals({"refund": True}))
"""


# --- answers


def test_answers_are_matched_with_questions():
    one, two = Question(id="a", value="?"), Question(id="b", value="!")
    assert match_answers([one], ["x"], "r") == {"a": ["x"]}
    assert match_answers([one], {"a": 1}, "r") == {"a": 1}
    assert match_answers([one, two], ["x", "y"], "r") == {"a": "x", "b": "y"}
    for wrong in ("x", ["x"], {"a": 1}):
        with pytest.raises(Fault):
            match_answers([one, two], wrong, "r")


def test_an_answer_is_json_or_text():
    assert parse_answer('{"type": "approve"}') == APPROVE
    assert parse_answer("yes, do it") == "yes, do it"
    assert SCRIPT
