"""The certified chain of hops: what was found for each, and the bridge entities that later hops are asked with."""

import re
from collections.abc import Sequence

from certigraph.adapters.prompting import listed
from certigraph.state.chains import Hop, carrying
from certigraph.state.records import Action, Arguments, Predicate
from certigraph.state.searching import ANSWER, answer, claim

PLACEHOLDER = re.compile(r"#(\d+)")
"""Stands in a sub-question for the entity found for the sub-question of that number, from 1 (MuSiQue's notation)."""

HOP, GOAL = "hop", "goal"
"""Kinds of predicates beside `answer`."""


def hop_predicate(index: int, question: str, queries: Sequence[str] = ()) -> Predicate:
    """A sub-question as a condition. `queries` are those that earlier plans spent on this hop in vain."""
    args: Arguments = {"index": index, "question": question}
    return Predicate(text=f"Known: {question}", kind=HOP, args={**args, **({"queries": [*queries]} if queries else {})})


def closing() -> list[Predicate]:
    """The end of every plan."""
    return [
        Predicate(text="The question is answered from what is certified.", kind=ANSWER),
        Predicate(text="The answer is final.", kind=GOAL),
    ]


def hop_claim(index: int, hop: Hop, title: str) -> Action:
    """The action that files a finding for the hop of an index, from 1."""
    filed = claim(hop.question, finding=hop.finding, title=title, entity=hop.entity)
    return filed.model_copy(update={"args": {**filed.args, "hop": index}})


def chain_answer(text: str, chain: Sequence[Hop]) -> Action:
    """The action that notes an answer, with the chain it was drawn from."""
    noted = answer(text)
    return noted.model_copy(update={"args": {**noted.args, **carrying(chain)}})


def resolved(question: str, hops: dict[int, Hop]) -> str:
    """The sub-question with bridge entities for the placeholders whose hop is certified."""
    return PLACEHOLDER.sub(lambda found: hops[int(found[1])].entity if int(found[1]) in hops else found[0], question)


def told(chain: Sequence[Hop]) -> str:
    """The chain as prompts show it."""
    return listed(f"{hop.question} {hop.entity}. {hop.finding}" for hop in chain)
