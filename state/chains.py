"""The chain of hops that an answer to a multi-hop question stands on, certified and as the answer carries it along."""

from collections.abc import Sequence
from typing import NamedTuple

from certigraph.state.certified import CertifiedState
from certigraph.state.records import Arguments
from certigraph.state.searching import CLAIM


class Hop(NamedTuple):
    """A hop and what was found for it."""

    question: str
    finding: str
    entity: str
    """What later hops need of it."""
    passage: str = ""
    """Id of the passage that bears it out; empty where nobody verified it."""


def certified_hops(certified: CertifiedState) -> dict[int, Hop]:
    """The certified hops by index, in the order of their certificates."""
    pairs = zip(certified.actions, certified.evidence, strict=True)
    claims = ((action.args, passage) for action, passage in pairs if action.kind == CLAIM and "hop" in action.args)
    return {
        int(str(args["hop"])): Hop(str(args["subquestion"]), str(args["finding"]), str(args["entity"]), passage)
        for args, passage in claims
    }


def carrying(chain: Sequence[Hop]) -> Arguments:
    """The argument by which an answer carries its chain along: neither Validate nor the world sees certificates."""
    return {"chain": [[*hop] for hop in chain]} if chain else {}


def carried(args: Arguments) -> list[Hop]:
    """The chain that an answer brought along."""
    chain = args.get("chain")
    return [Hop(*map(str, hop)) for hop in chain if isinstance(hop, list)] if isinstance(chain, list) else []
