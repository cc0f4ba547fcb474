"""docs/operators.md: it has every operator that a swap can name, and no other."""

import json
import re
from pathlib import Path

from certigraph.graphs.assembly import operators_of
from certigraph.runtime.registry import GRAPHS, build_graph

ROOT = Path(__file__).parent.parent


def test_every_operator_stands_once_with_slot_and_paper():
    rows = [line.split("|")[1:4] for line in (ROOT / "docs/operators.md").read_text(encoding="utf-8").splitlines()]
    tables = [row for row in rows if len(row) == 3 and row[0].startswith(" `")]
    assert all(cell.strip() for row in tables for cell in row)
    named = [name for row in tables for name in re.findall(r"`(\w+)`", row[0])]
    listed = json.loads((ROOT / "src/certigraph/cli/inventory.json").read_text(encoding="utf-8"))["operators"]
    assert sorted(named) == sorted(listed)


def test_the_list_names_the_slots_that_take_an_operator():
    inventory = json.loads((ROOT / "src/certigraph/cli/inventory.json").read_text(encoding="utf-8"))
    listed = {name: re.findall(r"\w+", text[1 : text.index("]")]) for name, text in inventory["operators"].items()}
    assert all(inventory["operators"][name].startswith("[") and slots for name, slots in listed.items())
    known = {slot for slots in inventory["graphs"].values() for slot in slots}
    assert {slot for slots in listed.values() for slot in slots} <= known
    for graph in GRAPHS:
        for slot, spec in operators_of(build_graph(graph)).items():
            name = spec["name"] if isinstance(spec, dict) else ""
            assert name not in listed or slot in listed[name], (graph, slot, name)


def test_the_documentation_names_the_same_slots():
    inventory = json.loads((ROOT / "src/certigraph/cli/inventory.json").read_text(encoding="utf-8"))
    for line in (ROOT / "docs/operators.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            _, operators, slot, *_ = line.split("|")
            for name in re.findall(r"`(\w+)`", operators):
                slots = re.findall(r"\w+", inventory["operators"][name].partition("]")[0])
                assert any(one in slot for one in slots) or "of the same name" in slot, line
