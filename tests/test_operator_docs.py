"""docs/operators.md: it has every operator that a swap can name, and no other."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_operator_stands_once_with_slot_and_paper():
    rows = [line.split("|")[1:4] for line in (ROOT / "docs/operators.md").read_text(encoding="utf-8").splitlines()]
    tables = [row for row in rows if len(row) == 3 and row[0].startswith(" `")]
    assert all(cell.strip() for row in tables for cell in row)
    named = [name for row in tables for name in re.findall(r"`(\w+)`", row[0])]
    listed = json.loads((ROOT / "src/certigraph/cli/inventory.json").read_text(encoding="utf-8"))["operators"]
    assert sorted(named) == sorted(listed)
