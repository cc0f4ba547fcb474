"""The random policy: it takes any option that a question offers, each as likely as the others.

Of the actions of a world it takes any; where it is to write, it writes the least. One answer is not the least: a plan
without conditions gives a task up before anything was done, so that it names one condition, which says nothing.
"""

import hashlib
from random import Random
from typing import Any

from certigraph.adapters.models.instances import minimal
from certigraph.adapters.models.meter import current_meter
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.situation import current_situation
from certigraph.adapters.protocols import Responder

RANDOM = "scripted:random"

ONE = {"minItems": 1, "items": {"type": "string", "minLength": 1}}
"""A list of one text at least."""


def by_chance(trial: int = 0) -> Responder:
    """The mind: the least instance of the schema, but for options, of which it takes any, and one condition.

    Args:
        trial: which repetition of the task this is; each is drawn anew.
    """

    def respond(prompt: str, schema: Schema) -> Any:
        return minimal(_decided(_planning(schema), drawing(0, trial, prompt)))

    return respond


def drawing(seed: int, trial: int, prompt: str) -> Random:
    """Where a question's chance comes from: the same in every process, order and resumed run.

    It depends on when the question is asked too, so that a question asked again is drawn anew.
    """
    situation = current_situation()
    state = situation.state if situation else {}
    task = state["task"].id if "task" in state else ""
    step = situation.superstep if situation else 0
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    return Random(f"{seed}:{trial}:{task}:{step}:{len(current_meter().records)}:{digest}")


def _planning(schema: Schema) -> Schema:
    """The schema, with at least one of the conditions that it may ask for."""
    parts = schema.get("properties", {})
    if "conditions" not in parts:
        return schema
    return {**schema, "properties": {**parts, "conditions": {**parts["conditions"], **ONE}}}


def _decided(node: Any, draw: Random) -> Any:
    """The schema with one option left of each list of options."""
    if isinstance(node, list):
        return [_decided(part, draw) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: [draw.choice(part)] if key == "enum" and isinstance(part, list) else _decided(part, draw)
        for key, part in node.items()
    }
