"""What jsonb would refuse or change comes back as it was; what it would not stays as it is."""

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from certigraph.runtime.postgres import dumped, escaped, loaded

TEXTS = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(["\0", "\ud800", "\x1b", "\x1b1", "\\u0000"])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)


def refusable(value: Any) -> bool:
    if isinstance(value, dict):
        return any(refusable(inner) for pair in value.items() for inner in pair)
    if isinstance(value, list):
        return any(map(refusable, value))
    return isinstance(value, float) or (isinstance(value, str) and ("\0" in value or not value.isprintable()))


@given(VALUES)
def test_every_value_comes_back(value: Any):
    text = dumped(value)
    assert loaded(text) == loaded(text.encode()) == value
    assert json.dumps(loaded(text)) == json.dumps(value)  # 1.0 is not 1
    assert "\\u0000" not in text.replace("\\\\", "")
    assert refusable(value) or escaped(value) == value


def test_what_is_no_number_comes_back_as_that():
    assert math.isnan(loaded(dumped([math.nan]))[0])
    assert loaded(dumped(-math.inf)) == -math.inf
