"""The simulated agent: a script that knows the right answer and errs at known rates, as the theory of methods assumes.

It is no model: what it shows is how a method's mechanisms deal with errors of a known kind and rate. Each question is
spoiled independently of all others, and the same way in every process, order and resumed run.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from certigraph.adapters.models.chance import drawing
from certigraph.adapters.models.instances import minimal
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.situation import current_situation
from certigraph.adapters.models.spoiling import Errors, spoiled
from certigraph.adapters.protocols import Responder
from certigraph.state.endings import UnknownName

SIMULATED = "simulated"
EXAMPLE = f"{SIMULATED}:propose=0.1,act=0.2,accept=0.1,reject=0.1,seed=3"


def errors_named(name: str) -> Errors:
    """The rates that a model's name gives: `simulated`, or `simulated:act=0.3,seed=1`; what it leaves out is usual.

    Raises:
        UnknownName: an unknown or repeated rate, one outside [0, 1], or no number; shows the right form.
    """
    kind, colon, rest = name.partition(":")
    pairs = [text.partition("=") for text in rest.split(",")] if colon else []
    given = {key.strip(): value.strip() for key, _, value in pairs}
    if kind != SIMULATED or len(given) < len(pairs):
        raise UnknownName(_wrong(name, "each rate is named once"))
    try:
        return Errors.model_validate(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        raise UnknownName(_wrong(name, f"{'.'.join(map(str, wrong['loc']))!r}: {wrong['msg']}")) from error


def name_of(errors: Errors) -> str:
    """The name with every rate in it, under which calls are recorded."""
    return f"{SIMULATED}:" + ",".join(f"{key}={value}".removesuffix(".0") for key, value in errors)


def simulated(errors: Errors, expert: Responder | None, trial: int = 0) -> Responder:
    """The mind: the expert's answer, without one the least instance of the schema, spoiled at the rates of `errors`.

    Args:
        errors: the rates.
        expert: the benchmark's expert.
        trial: which repetition of the task this is; each is drawn anew.
    """

    def respond(prompt: str, schema: Schema) -> Any:
        right = expert(prompt, schema) if expert else minimal(schema)
        state = _state()
        draw = drawing(errors.seed, trial, prompt)
        return spoiled(right, schema, errors, draw, goal=_goal(state), target=_target(state))

    return respond


def _state() -> Mapping[str, Any]:
    situation = current_situation()
    return situation.state if situation else {}


def _goal(state: Mapping[str, Any]) -> str:
    return state["task"].condition or state["task"].goal if "task" in state else ""


def _target(state: Mapping[str, Any]) -> str:
    """What the agent works on: the head of SDP's plan, or STEP's subtask; agents without either have no target."""
    if "subtask" in state:
        return str(state["subtask"].text)
    plan, head = state.get("plan", ()), state.get("head", 0)
    return str(plan[head].text) if head < len(plan) else ""


def _wrong(name: str, reason: str) -> str:
    return f"{name!r} is no simulated agent: {reason}; say {SIMULATED}, or {EXAMPLE} (rates from 0 to 1)"
