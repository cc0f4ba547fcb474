"""Questions to a person (`interrupt`): found when a run stops at one, shown, and matched with their answers."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from langgraph.types import StateSnapshot
from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from certigraph.adapters.json_lines import parse_json
from certigraph.nodes.questions import (
    DECISION_FORMS,
    OUTCOMES,
    UNKNOWN_OUTCOME,
    Outcome,
    OutcomeDecision,
    read_decisions,
)
from certigraph.state.endings import AnswerMissing, Fault
from certigraph.state.tools import ToolCall
from certigraph.state.trajectory import AnsweredQuestion, Question


def find_questions(snapshot: StateSnapshot) -> list[Question]:
    """Return the questions for whose answers a graph waits, in the order of its nodes."""
    found: dict[str, Question] = {}
    for task in snapshot.tasks:
        for one in task.interrupts:
            value = to_jsonable_python(one.value, fallback=repr, inf_nan_mode="null")
            found.setdefault(one.id, Question(id=one.id, value=value, node=task.name))
    return list(found.values())


def parse_answer(text: str) -> JsonValue:
    """Return the value of an answer given as JSON; any other text is the answer itself."""
    try:
        value: JsonValue = parse_json(text)
    except ValueError:
        return text
    return value


def match_answers(questions: Sequence[Question], answer: JsonValue, run: str) -> dict[str, JsonValue]:
    """Return the answers to a run's open questions, by id of the question.

    Args:
        questions: the open questions.
        answer: the answer to the only question; for several, a list in their order, or a mapping by their ids.
        run: name of the run, for error messages.

    Raises:
        Fault: ("data") no question is open, or the number of answers is not that of the questions.
    """
    if not questions:
        fix = "resume it without one; if it did ask, give the agent with the interrupt_on with which it was started"
        raise Fault("data", f"run {run} waits for no answer: {fix}")
    ids = [question.id for question in questions]
    if isinstance(answer, dict) and answer.keys() == {*ids}:
        return answer
    if len(questions) == 1:
        return {ids[0]: answer}
    if isinstance(answer, list) and len(answer) == len(ids):
        return dict(zip(ids, answer, strict=True))
    fix = f"give a list of {len(ids)} answers in the order of `result.questions`"
    raise Fault("data", f"run {run} waits for {len(ids)} answers and got {json.dumps(answer)!s:.200}: {fix}")


def check_answered(questions: Sequence[Question], folder: Path, *, in_python: bool) -> None:
    """Check that no question of a run is open.

    Args:
        questions: the open questions of the run.
        folder: the folder of the run.
        in_python: whether the run can be resumed in Python only, because it was started with an object.

    Raises:
        AnswerMissing: one is; the message has it and the command or call that answers it.
    """
    if questions:
        shown = " ".join(format_question(question) for question in questions)
        call = f"certigraph.resume({str(folder)!r}, graph=..., answer={_example_answer(questions)})"
        fix = call if in_python else answer_command(questions, folder)
        raise AnswerMissing(f"the run waits for an answer: {shown}; answer with: {fix}")


def question_lines(questions: Sequence[Question]) -> Iterator[str]:
    """Yield a line for each open question of a run."""
    yield from (f"waits for an answer: {format_question(question)}" for question in questions)


def answer_advice(questions: Sequence[Question], folder: Path) -> Iterator[str]:
    """Yield the command that answers the open questions of a run, and the other decisions that they take."""
    if questions:
        yield f"answer with: {answer_command(questions, folder)}"
        others = (kind for question in questions for kinds in _decisions_of(question.value) for kind in kinds[1:])
        if forms := [DECISION_FORMS[kind] for kind in dict.fromkeys(others)]:
            yield f"or with one of these decisions: {', '.join(forms)}"


def format_question(question: Question) -> str:
    """Format a question as one line, and why its latest answer could not be used, if there was one."""
    value, problem = _split_problem(question.value)
    return _format_value(value) + (f" (the answer cannot be used: {problem})" if problem else "")


def format_answer(value: JsonValue) -> str:
    """Format an answer to a question as one line: the decision for each call, or the text."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict) and isinstance(decisions := value.get("decisions"), list):
        value = decisions
    if isinstance(value, list):
        return "; ".join(map(format_answer, value))
    if not (isinstance(value, dict) and isinstance(kind := value.get("type"), str)):
        return json.dumps(value, ensure_ascii=False)
    edited = value.get("edited_action")
    details = str(_parse_call(edited)) if isinstance(edited, dict) else value.get("message") or value.get("result")
    return f"{kind}: {details}" if details else kind


def answer_lines(answered: Sequence[AnsweredQuestion], waiting: Sequence[Question]) -> list[tuple[str, str]]:
    """Return the questions of a run and their answers, each as one line; why an answer could not be used stands by it.

    Args:
        answered: the questions that were answered, in order.
        waiting: the questions that are open.
    """
    questions = [*(one.question for one in answered), *waiting]
    lines = []
    for number, one in enumerate(answered, 1):
        question, _ = _split_problem(one.question.value)
        later = (_split_problem(other.value) for other in questions[number:])
        problem = next((problem for value, problem in later if value == question), "")
        unused = f" (not used: {problem})" if problem else ""
        lines.append((_format_value(question), format_answer(one.answer) + unused))
    return lines


def outcome_decisions(answered: Sequence[AnsweredQuestion]) -> list[tuple[ToolCall, Outcome]]:
    """Return the calls that were cut off, each with a person's decision; answers that could not be used have none.

    Args:
        answered: the questions that were answered, in order.
    """
    found: list[tuple[ToolCall, Outcome]] = []
    for one in answered:
        value = one.question.value
        if not (isinstance(value, dict) and value.get("type") == UNKNOWN_OUTCOME):
            continue
        calls = _parse_calls(value.get("calls"))
        with suppress(ValueError):
            decisions = read_decisions(OutcomeDecision, one.answer, count=len(calls), allowed=OUTCOMES)
            found += zip(calls, [decision.type for decision in decisions], strict=True)
    return found


def _split_problem(value: JsonValue) -> tuple[JsonValue, str]:
    """Split a question into what it was when it was put first, and why its latest answer could not be used."""
    if not isinstance(value, dict):
        return value, ""
    return {key: part for key, part in value.items() if key != "problem"}, str(value.get("problem", ""))


def _format_value(value: JsonValue) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    if calls := _approvals_in(value):
        return "; ".join(calls)
    if isinstance(value, dict) and isinstance(text := value.get("question"), str):
        return f"{text} {'; '.join(map(str, _parse_calls(value.get('calls'))))}".strip()
    return json.dumps(value, ensure_ascii=False)


def answer_command(questions: Sequence[Question], folder: Path) -> str:
    """Return the command that resumes a run with an answer, which stands there as an example."""
    return f"certigraph resume {shlex.quote(str(folder))} --answer {shlex.quote(_example_answer(questions))}"


def _example_answer(questions: Sequence[Question]) -> str:
    examples = [_example_for(question.value) for question in questions]
    return examples[0] if len(examples) == 1 else f"[{', '.join(examples)}]"


def _approvals_in(value: JsonValue) -> list[str]:
    requests = value.get("action_requests") if isinstance(value, dict) else None
    shown = requests if isinstance(requests, list) else []
    return [str(one.get("description") or _parse_call(one)) for one in shown if isinstance(one, dict)]


def _parse_calls(calls: JsonValue) -> list[ToolCall]:
    return [_parse_call(one) for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []


def _parse_call(call: Mapping[str, Any]) -> ToolCall:
    args = call.get("args")
    return ToolCall(name=str(call.get("name", "")), args=args if isinstance(args, dict) else {})


def _example_for(value: JsonValue) -> str:
    """Return an example of an answer as JSON: the first decision that each call takes, or a place for the text.

    Decisions have the one form that `certigraph resume`, LangGraph's `Command` and LangChain's interfaces all take.
    """
    examples = [DECISION_FORMS[kinds[0]] for kinds in _decisions_of(value)]
    return f'{{"decisions": [{", ".join(examples)}]}}' if examples else '"ANSWER"'


def _decisions_of(value: JsonValue) -> list[list[str]]:
    """Return the decisions that each call in a question takes; empty for a question of another node."""
    if not isinstance(value, dict):
        return []
    if value.get("type") == UNKNOWN_OUTCOME:
        calls = value.get("calls")
        return [[*OUTCOMES] for _ in calls] if isinstance(calls, list) else []
    requests, configs = value.get("action_requests"), value.get("review_configs")
    if not (isinstance(requests, list) and isinstance(configs, list)):
        return []
    allowed = {one.get("action_name"): one.get("allowed_decisions") for one in configs if isinstance(one, dict)}
    found = [allowed.get(one.get("name")) for one in requests if isinstance(one, dict)]
    known = [[str(kind) for kind in kinds if kind in DECISION_FORMS] for kinds in found if isinstance(kinds, list)]
    return known if all(known) else []
