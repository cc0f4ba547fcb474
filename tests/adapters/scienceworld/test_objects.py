"""Tests of reading the simulator's state, and the audit of the rules against it in the simulator itself."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from certigraph.adapters.scienceworld.conditions import parse_condition
from certigraph.adapters.scienceworld.objects import read_world

ROOT = Path(__file__).parents[3]


def thing(name: str, *contents: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {"name": name, "contents": {part["name"]: part for part in contents}, **properties}


CLOSED = {"propContainer": {"isOpen": False}}
GLASS = {"propMaterial": {"substanceName": "glass"}}
WORLD = read_world(
    thing(
        "universe",
        thing(
            "kitchen",
            thing("cupboard", thing("tin cup"), **CLOSED),
            thing("glass jar", thing("salt"), **CLOSED, **GLASS),
            thing("table", thing("bowl", thing("orange"))),
            thing("soap", isDeleted=True),
            thing("agent", thing("inventory", thing("metal pot", thing("water")))),
        ),
        thing("hallway", thing("picture")),
    ),
    "orange",
)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("The agent is in the kitchen.", True),
        ("The agent is in the hallway.", False),
        ("The agent is in the spacecraft.", None),
        ("The orange is in focus.", True),
        ("The bowl is in focus.", False),
        ("The inventory contains the metal pot.", True),
        ("The inventory contains the water.", True),
        ("The inventory contains the orange.", False),
        ("The orange is in the bowl.", True),
        ("The orange is on the table.", True),
        ("The orange is in the kitchen.", True),
        ("The orange is in the cupboard.", False),
        ("The location of the salt is known.", True),
        ("The location of the tin cup is known.", False),
        ("The location of the picture is known.", False),
        ("The location of the soap is known.", False),
        ("The location of the living thing is known.", None),
        ("The water has been made.", True),
        ("The picture has been made.", False),
    ],
)
def test_a_condition_is_judged_by_what_there_is(condition: str, holds: bool | None):
    worded = parse_condition(condition)
    assert worded is not None
    assert WORLD.holds(worded) is holds


@pytest.mark.slow
def test_no_rule_certifies_what_the_simulator_does_not_have():
    command = [sys.executable, str(ROOT / "benchmarks/certificate_audit.py"), "scienceworld", "--perturbed", "4"]
    tasks = ["--tasks", "chemistry-mix", "use-thermometer"]
    audit = subprocess.run([*command, *tasks], capture_output=True, text=True, check=False)
    assert audit.returncode == 0, audit.stderr[:2_000]
    assert "| gold | 2 |" in audit.stdout
