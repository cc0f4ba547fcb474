"""The figures of a recall study: what is stored, and how scores become it."""

from certigraph.evaluation.methods import RECALL
from certigraph.evaluation.recall.scoring import BASE, EACH, ONCE, WOVEN, Scores
from certigraph.evaluation.statistics import holm, mean_of, paired
from certigraph.state.records import Record


class Recall(Record):
    """One measure of a method on a split: the mean over questions, 0 to 1, with its 95 % interval (t over questions).

    `difference` is to plain BM25 with the question asked once; its interval is a paired bootstrap's, and `p` the
    paired t-test's, `p_holm` the same after Holm over all differences of the split. Plain BM25's own are None.
    """

    split: str
    method: str
    queries: str
    measure: str
    mean: float
    low: float | None
    high: float | None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p: float | None = None
    p_holm: float | None = None


class Corpus(Record):
    """What a split's questions were asked of: the distinct paragraphs of its file."""

    split: str
    file: str
    questions: int
    hops: int
    passages: int


class RecallStudy(Record):
    """All figures; `encoder` is None where vectors were left out."""

    corpora: tuple[Corpus, ...]
    recalls: tuple[Recall, ...]
    encoder: str | None
    statistics: dict[str, str] = RECALL
    """The method of every interval and p, by field."""


def recalls(split: str, scores: Scores) -> list[Recall]:
    """A split's figures: the question asked once, then hop by hop; method by method in each."""
    keys = sorted(scores, key=lambda key: (ONCE, WOVEN, EACH).index(key[1]))
    found = [_recall(split, key, scores) for key in keys]
    adjusted = holm([one.p for one in found])
    return [one.model_copy(update={"p_holm": p}) for one, p in zip(found, adjusted, strict=True)]


def _recall(split: str, key: tuple[str, str, str], scores: Scores) -> Recall:
    method, queries, measure = key
    mean = mean_of([score for [score] in scores[key].values()], top=1.0)
    one = Recall(
        split=split, method=method, queries=queries, measure=measure, mean=mean.mean, low=mean.low, high=mean.high
    )
    if (method, queries) == (BASE, ONCE):
        return one
    apart = paired(scores[BASE, ONCE, measure], scores[key])
    beside = {"difference": apart.mean, "difference_low": apart.low, "difference_high": apart.high, "p": apart.p}
    return one.model_copy(update=beside)
