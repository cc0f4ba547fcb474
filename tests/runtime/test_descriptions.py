"""`describe`: a graph's paper, its slots with their operators and its drawing, as text and for notebooks."""

import shutil

import pytest

import certigraph
from certigraph.runtime.registry import GRAPHS, graph_slots
from certigraph.state.endings import UnknownName


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_graph_is_described_with_all_its_slots(graph: str):
    found = certigraph.describe(graph)
    assert [slot.name for slot in found.slots] == graph_slots(graph)
    assert found.title and all(slot.name in str(found) for slot in found.slots)
    filled = [slot for slot in found.slots if slot.operator]
    assert filled and all(slot.operator.partition(":")[0] in slot.choices for slot in filled if slot.summary)


def test_the_operators_of_a_graph_inside_a_node_are_described_too():
    operators = {slot.name: slot.operator for slot in certigraph.describe("tdp:paper").slots}
    assert (operators["plan"], operators["execute"], operators["gate"]) == ("plan_always", "execute", "")


def test_a_notebook_shows_the_chosen_operator_and_a_picture(monkeypatch: pytest.MonkeyPatch):
    found = certigraph.describe("sdp", {"validate": "capped:depth=1"})
    page = found._repr_html_()
    assert "<td>capped:depth=1</td>" in page and "<svg" in page and "certified" in page
    monkeypatch.setattr(shutil, "which", lambda *args, **options: None)
    assert "<svg" not in found._repr_html_(), "without Graphviz the table stands alone"


@pytest.mark.parametrize(
    ("graph", "swaps"), [("sdpp", {}), ("sdp", {"validat": "x"}), ("sdp", {"validate": "give_up"})]
)
def test_what_does_not_exist_is_refused(graph: str, swaps: dict[str, str]):
    with pytest.raises(UnknownName):
        certigraph.describe(graph, swaps)
