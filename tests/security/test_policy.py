"""SECURITY.md keeps its word: five boundaries, fifteen threats, and every test it names is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POLICY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

BOUNDARIES = [
    "model output",
    "environment observation",
    "run store",
    "checkpoint database",
    "configuration and environment",
]

THREATS = {
    int(cells[0]): cells[1:]
    for line in POLICY.splitlines()
    if (cells := [cell.strip() for cell in line.strip("|").split(" | ")]) and cells[0].isdigit()
}
"""Threat, rule and tests by number."""

NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", POLICY)))


def test_the_five_boundaries_come_first():
    rows = re.findall(
        r"^\| ([a-z ]+) \|", POLICY.partition("## Five boundaries")[2].partition("\n## ")[0], re.MULTILINE
    )
    assert [row for row in rows if row != "boundary"] == BOUNDARIES


def test_each_of_the_fifteen_threats_has_a_rule_and_a_test():
    assert list(THREATS) == list(range(1, 16))
    for threat, rule, tests in THREATS.values():
        assert threat and len(rule) > 20
        assert re.search(r"`tests/[\w/]+\.py", tests)


@pytest.mark.slow
@pytest.mark.parametrize("named", NAMED)
def test_every_test_that_is_named_is_there(named: str):
    file, _, name = named.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    tests = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert any(test.startswith("test_") for test in tests)
    assert not name or name in tests
