"""LoCoMo as a search benchmark: one conversation is the corpus of all its questions."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from certigraph.adapters.caching import cache_folder
from certigraph.adapters.locomo.conversations import Conversation, read_conversations
from certigraph.adapters.locomo.generated import generated_conversations
from certigraph.adapters.locomo.questions import Asked, ConversationBank
from certigraph.adapters.locomo.scoring import UNANSWERABLE, abstains, official, stems
from certigraph.adapters.retrieval.hybrid import mixed
from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.adapters.searching.benchmark import Parts, QuestionBenchmark
from certigraph.adapters.searching.files import question_file
from certigraph.adapters.searching.outcomes import Outcome
from certigraph.state.records import Task

FILES = ("locomo10", "locomo10.shared")


class LoCoMo(QuestionBenchmark[Asked]):
    """Tasks `conv-26/0` (the first question about that conversation) and `conv-26/0-swapped`; without data `made-0/0`.

    Splits: see `ConversationBank.split`. Every passage is one turn of the dialogue and has to be searched for. The
    score of an answerable question is LoCoMo's for its category, of an unanswerable one 1 for an abstention.

    Args:
        folder: holds locomo10.json, gzipped or not; None: three generated conversations.
    """

    plain = "locomo"
    longest_answer = 300
    configurations = ()
    retrieving = ("",)
    briefing = (
        "The corpus is one long conversation between two people, a passage a turn, with its speaker and its date; "
        '"yesterday" in a turn means the day before that date. Actions are search[words to look for], which shows the '
        "turns that fit, and finish[the shortest answer]. Where the conversation does not tell, or tells it of the "
        f"other person only, the answer is {UNANSWERABLE}."
    )

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        super().__init__(folder, config)
        self.bank = self._talks = ConversationBank(self._conversations)
        self._retriever = lru_cache(maxsize=32)(self._made)

    def read(self, split: str) -> Mapping[str, Asked]:
        """The questions of a split by id."""
        return {asked.id: asked for asked in self.bank.split(split)}

    def retriever(self, task: Task, alpha: float | None) -> Retriever:
        """BM25 over the turns of the conversation, mixed with vectors where `alpha` is below 1; those are kept."""
        return self._retriever(task.id.rpartition("/")[0], 1.0 if alpha is None else alpha)

    def answer_parts(self, question: Asked, answer: str) -> dict[str, float]:
        """`f1`, the score; `em` over stems; `official`, LoCoMo's own of category 5 too; `abstained`."""
        abstained, by_category = float(abstains(answer)), official(answer, question.gold)
        if not question.answerable:
            return {"em": abstained, "f1": abstained, "official": by_category, "abstained": abstained}
        equal = float(stems(answer) == stems(question.answers[0]))
        return {"em": equal, "f1": by_category, "official": by_category, "abstained": abstained}

    def parts(self, question: Asked, outcome: Outcome) -> Parts:
        """The same of what an episode handed in, which may be nothing."""
        return {**self.answer_parts(question, outcome.answer or "")}

    def _conversations(self) -> Mapping[str, Conversation]:
        if self.folder is None:
            return generated_conversations()
        return read_conversations(question_file("locomo", self.folder, FILES))

    def _made(self, conversation: str, alpha: float) -> Retriever:
        passages = self._talks.conversations[conversation].passages()
        # Titles are a speaker and a date, which many turns have: there is nothing to put first.
        return mixed(Pool(passages, boost_titles=False), passages, alpha, folder=cache_folder() / "vectors")
