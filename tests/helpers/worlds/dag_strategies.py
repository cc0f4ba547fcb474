"""Task graphs, half run ones, and what models write instead, as hypothesis draws them."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from certigraph.state.tdp import Dag, Node, NodeStatus


def for_all(*strategies: st.SearchStrategy[object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return lambda test: settings(max_examples=50, deadline=None)(given(*strategies)(test))


IDS = ["a", "b", "c", "d", "e", "f"]
STATUSES: tuple[NodeStatus, ...] = ("pending", "completed", "failed")

ids = st.sampled_from(["", *IDS])
written = st.lists(
    st.builds(
        Node,
        id=ids,
        task=st.sampled_from(["", "find A", "find B", "find C", "find D"]),
        needs=st.lists(ids, max_size=4).map(tuple),
        status=st.sampled_from(STATUSES),
    ),
    max_size=9,
)


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> Dag:
    """A graph whose nodes, in any order of listing, need earlier ones, and of which the last is the one end."""
    made = list[Node]()
    for id_ in draw(st.permutations(IDS[: draw(st.integers(1, most))])):
        needs = draw(st.lists(st.sampled_from([node.id for node in made]), unique=True)) if made else []
        made.append(Node(id=id_, task=f"do {id_}", needs=tuple(needs)))
    needed = {need for node in made for need in node.needs}
    loose = [node.id for node in made[:-1] if node.id not in needed]
    made[-1] = made[-1].model_copy(update={"needs": (*made[-1].needs, *loose)})
    return Dag(nodes=tuple(draw(st.permutations(made))))


@st.composite
def half_run_graphs(draw: st.DrawFn) -> Dag:
    """A graph of which some batches have run."""
    dag = draw(graphs())
    for _ in range(draw(st.integers(0, 4))):
        dag = dag.with_status({node.id: draw(st.sampled_from(STATUSES[1:])) for node in dag.ready})
    return dag


def is_accepted(nodes: list[Node]) -> bool:
    try:
        Dag(nodes=tuple(nodes))
    except ValidationError:
        return False
    return True
