"""A comparison's plan on disk: written down before its first run, and held to after."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from certigraph.adapters.rows import MOST_SETTINGS, file_bytes
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.naming import check_out
from certigraph.state.endings import Fault

FILE = "comparison.json"

COMMAND = "certigraph compare"

SHOWN = 5
"""Differences between two plans that are named; more say nothing new."""

CIRCUMSTANCES = {"versions", "machine", "created"}
"""Parts of a plan that may change while it is carried out."""


def read_plan(folder: Path) -> Plan:
    """The plan of a folder. Raises Fault where there is none, or one that cannot be read."""
    path = folder / FILE
    if not path.is_file():
        raise Fault(
            "data", f"{folder} holds no comparison: name methods, --on BENCHMARK and --model to begin one there"
        )
    try:
        return Plan.model_validate_json(file_bytes(path, MOST_SETTINGS))
    except ValidationError as error:
        raise Fault(
            "data", f"{path} is no plan ({error.errors()[0]['msg']}): restore it or use another --out"
        ) from error


def settle(plan: Plan, folder: Path, command: str = COMMAND) -> None:
    """Write the plan into its folder, or make sure that it is the one the folder was begun with.

    `command` is what goes on with such folders, for messages.

    Raises:
        Fault: the folder holds another comparison; the message says what differs. Or it is no folder for one.
    """
    check_out(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE).is_file():
        draft = folder / f"{FILE}.tmp"  # renamed when whole: a killed process leaves no half plan
        draft.write_text(plan.model_dump_json(indent=1), encoding="utf-8")
        draft.replace(folder / FILE)
    elif told := apart(read_plan(folder), plan):
        fix = f"go on with that one by `{command} --out {folder}`, or begin this one in another --out"
        raise Fault("data", f"{folder} holds another comparison ({told}): {fix}")


def apart(there: Plan, here: Plan) -> str:
    """What two plans do not have in common in one line, the first of it; nothing where they are one."""
    found = differences(there, here)
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def differences(there: Plan, here: Plan) -> list[str]:
    """What two plans do not have in common, in words; circumstances aside."""
    one, other = (dict(_flat(plan.model_dump(mode="json", exclude=CIRCUMSTANCES))) for plan in (there, here))
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [f"{key}: {_told(one.get(key))} there, {_told(other.get(key))} here" for key in keys]


def _flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, (Mapping, list)):
        yield at, value
        return
    for key, part in value.items() if isinstance(value, Mapping) else enumerate(value, 1):
        yield from _flat(part, f"{at}.{key}" if at else str(key))


def _told(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
