"""LoCoMo's questions with their gold, as search benchmarks know them, and the splits that they are asked in."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from certigraph.adapters.hints import unknown_task
from certigraph.adapters.locomo.conversations import ADVERSARIAL, SINGLE_HOP, Conversation, Question
from certigraph.adapters.locomo.scoring import reference
from certigraph.adapters.locomo.swapping import drawn, swapped_questions
from certigraph.adapters.searching import questions as searching
from certigraph.adapters.searching.banks import QuestionBank
from certigraph.adapters.searching.questions import Hop
from certigraph.state.endings import UnknownName

KINDS = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}
SWAPPED = "swapped"

DRAWN = re.compile(rf"{SWAPPED}-(\d+)(?:-(\d+))?")

SPLITS = f"answerable, unanswerable, cgdp, {SWAPPED}, {SWAPPED}-N and {SWAPPED}-N-SEED (N of those, drawn)"


class Asked(searching.Question):
    """A question of a conversation; its hops are the turns of its evidence, each with the whole answer."""

    gold: Question

    @property
    def answerable(self) -> bool:
        """Whether the conversation tells the answer."""
        return self.gold.category != ADVERSARIAL


class ConversationBank(QuestionBank[Asked]):
    """Every question by id, `conv-26/0`, and `conv-26/0-swapped` where its speaker can be exchanged."""

    def __init__(self, read: Callable[[], Mapping[str, Conversation]]) -> None:
        """Read conversations when they are first asked for."""
        super().__init__("locomo", lambda split: {asked.id: asked for asked in self.split(split)})
        self._conversations = read

    @cached_property
    def conversations(self) -> Mapping[str, Conversation]:
        """By id. Raises Fault ("data") as the reader does."""
        return self._conversations()

    @cached_property
    def original(self) -> dict[str, Asked]:
        """LoCoMo's own questions."""
        talks = self.conversations.values()
        listed = ((talk, place, question) for talk in talks for place, question in enumerate(talk.questions))
        return {asked.id: asked for asked in (_asked(*one) for one in listed)}

    @cached_property
    def swapped(self) -> dict[str, Asked]:
        """Those made unanswerable; 146 of the 993 of categories 1, 2 and 4 in the seven shared conversations."""
        listed = ((talk, *made) for talk in self.conversations.values() for made in swapped_questions(talk))
        return {asked.id: asked for asked in (_asked(*one, SWAPPED) for one in listed)}

    def question(self, id_: str) -> Asked:
        """One question. Raises UnknownName with some valid ids."""
        known = self.swapped if id_.endswith(SWAPPED) else self.original
        if id_ not in known:
            raise unknown_task("locomo", id_, f"CONVERSATION/NUMBER, here {len(known)} of them", known)
        return known[id_]

    def split(self, name: str = "") -> Sequence[Asked]:
        """The questions of a split; LoCoMo's own where none is named.

        `cgdp` is single-hop and adversarial questions: that paper's 835 answerable and 440 unanswerable are six less
        than the published 841 and 446 of these two categories, so this is our reading of it.

        Raises:
            UnknownName: no such split; lists them.
        """
        if match := DRAWN.fullmatch(name):
            return drawn(tuple(self.swapped.values()), int(match[1]), int(match[2] or 0))
        own = self.original.values()
        splits: Mapping[str, Callable[[], Sequence[Asked]]] = {
            "": lambda: [*own],
            "answerable": lambda: [asked for asked in own if asked.answerable],
            "unanswerable": lambda: [*(asked for asked in own if not asked.answerable), *self.swapped.values()],
            "cgdp": lambda: [asked for asked in own if asked.gold.category in (SINGLE_HOP, ADVERSARIAL)],
            SWAPPED: lambda: [*self.swapped.values()],
        }
        if name not in splits:
            raise UnknownName(f"locomo has no split {name!r}; known: {SPLITS}")
        return splits[name]()


def _asked(talk: Conversation, place: int, question: Question, suffix: str = "") -> Asked:
    answer, turns = reference(question), {passage.id: passage for passage in talk.evidence(question)}
    hops = [Hop(question=question.text, answer=answer, passage=turn, finding=turn.text) for turn in turns.values()]
    return Asked(
        id=f"{talk.id}/{place}" + (f"-{suffix}" if suffix else ""),
        text=question.text,
        answers=(answer,),
        kind=suffix or KINDS[question.category],
        passages=(),
        hops=tuple(hops),
        gold=question,
    )
