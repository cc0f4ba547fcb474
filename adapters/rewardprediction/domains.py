"""What the published RewardPrediction has of each domain, and where it is drawn from here (appendix A.3, A.4)."""

from collections.abc import Mapping
from typing import NamedTuple


class Domain(NamedTuple):
    """A benchmark whose worlds the recordings are from."""

    pairs: int
    """Pairs of trajectories that are published."""
    splits: tuple[str, ...] = ("",)
    """The benchmark's splits that tasks are drawn from."""
    kind: str = ""
    """Finds in a task's id what kind it is of, a regular expression of one group; pairs are spread evenly over kinds.
    Empty: all are of one."""
    without: frozenset[str] = frozenset()
    """Kinds that are left out."""


PUBLISHED: Mapping[str, Domain] = {
    "alfworld": Domain(336, ("valid_train", "valid_seen", "valid_unseen"), "(.*?)-"),
    "blocksworld": Domain(250),
    "scienceworld": Domain(191, ("swiftsage-271",), "(?:.*/)?(.*):", frozenset({"grow-plant", "grow-fruit"})),
    "textworld": Domain(150, ("rewards",), "(.*?)-"),
    "webshop": Domain(300, ("", "test"), "(.*)-"),
}
"""By benchmark. The paper has ALFWorld's training games, 56 of each type: here are 394 games in all. Of ScienceWorld's
test variations the first ten of each task, without those in which the simulator's own way does not reliably get to the
end, as in the paper. Of WebShop goals for as many different products as there are, where the paper has human
demonstrations."""
