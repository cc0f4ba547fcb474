"""Descriptions of graphs: a graph's paper, its slots with their operators, and its drawing."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

from langchain_core.runnables.graph import Graph

from certigraph.graphs.assembly import operators_of
from certigraph.graphs.catalogue import operators_for_slot, summarize_operator
from certigraph.nodes.specs import Spec, parse_spec
from certigraph.runtime.drawings import draw_svg
from certigraph.runtime.registry import build_graph, graph_module, graph_slots, split_configuration
from certigraph.state.endings import Fault


class SlotDescription(NamedTuple):
    """A slot of a graph."""

    name: str
    operator: str
    """The operator in it, with its arguments; empty for an optional slot without one."""
    summary: str
    """What the operator does."""
    choices: tuple[str, ...]
    """Names of the operators that fit."""


class GraphDescription(NamedTuple):
    """A graph as `describe` returns it. Printed it is a text; a notebook shows it as a table and a picture."""

    name: str
    title: str
    """What it is, with the section of its paper."""
    slots: tuple[SlotDescription, ...]
    drawing: Graph
    """The drawing as LangGraph has it: `drawing.draw_mermaid()`."""

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.title}", *self._lines()])

    def _lines(self) -> Iterator[str]:
        width = max(len(slot.name) for slot in self.slots)
        for slot in self.slots:
            yield f"  {slot.name:{width}}  {slot.operator or '(none)'}{f': {slot.summary}' if slot.summary else ''}"

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{head}</th>" for head in ("slot", "operator", "what it does", "others"))
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells_of(slot))}</tr>" for slot in self.slots
        )
        try:
            picture = draw_svg(self.drawing)
        except Fault:  # without Graphviz the table stands alone
            picture = ""
        return f"<h4>{escape(self.name)}: {escape(self.title)}</h4><table><tr>{heads}</tr>{rows}</table>{picture}"


def _cells_of(slot: SlotDescription) -> tuple[str, str, str, str]:
    others = [choice for choice in slot.choices if choice != slot.operator.partition(":")[0]]
    return slot.name, slot.operator or "(none)", slot.summary, ", ".join(others)


def describe(graph: str, swaps: Mapping[str, str] | None = None) -> GraphDescription:
    """Describe a graph: its paper, its slots with their operators, and its drawing.

    Args:
        graph: name of one of certigraph's graphs, also with `:paper` after it.
        swaps: operators by slot in place of the graph's own, as on the command line: `{"validate": "always_pass"}`.

    Raises:
        UnknownName: the graph, a slot or an operator is unknown.
    """
    name, _ = split_configuration(graph)
    compiled = build_graph(graph, {slot: parse_spec(text) for slot, text in (swaps or {}).items()})
    module: Any = graph_module(name)
    graphs = [*(inner for _, inner in compiled.get_subgraphs(recurse=True)), compiled]  # TDP has slots inside a node
    named = {slot: spec for one in graphs for slot, spec in operators_of(one).items()}  # type: ignore[arg-type]
    specs = {slot: Spec.model_validate(spec) for slot, spec in named.items()}
    slots = tuple(
        SlotDescription(
            slot,
            str(specs[slot]) if slot in specs else "",
            summarize_operator(specs[slot].name) if slot in specs else "",
            tuple(operators_for_slot(slot)),
        )
        for slot in graph_slots(name)
    )
    title = (module.__doc__ or "").partition("\n")[0].rstrip(".")
    return GraphDescription(graph, title, slots, compiled.get_graph(xray=True))
