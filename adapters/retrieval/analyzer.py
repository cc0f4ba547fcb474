"""How text becomes terms: one analysis for every engine, so that they rank the same words.

Lower-cased, accent-folded runs of letters and digits; English stopwords removed; no stemming (facts: stemming helps
HotpotQA and hurts MuSiQue, neither significantly). rank-bm25 weighs a stopword like a word of one document in seven,
other engines next to nothing: with stopwords removed their first ten passages agree.
"""

import re
import unicodedata

ANALYZER = "english-1"
"""Names this analysis in the manifest of an index. A change below needs a new name, and indexes are built again."""

_FUNCTION_WORDS = """
a an the this that these those
i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself they them their theirs themselves
who whom whose which what when where why how
am is are was were be been being do does did doing done have has had having
can could may might must shall should will would
and or but nor so if then than because while although though unless whether
of at by for with about against between into through during before after above below to from up down in out on off
over under upon within without toward towards among along across around near per via as until since
again further once here there both each few more most other another some any such no not only own same too very
just also all every either neither ever never however
s t d m ll re ve
"""

STOPWORDS = frozenset(_FUNCTION_WORDS.split())
"""Function words, question words, auxiliaries, and what is left of contractions when the apostrophe splits them."""

_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "ł": "l",
        "ħ": "h",
        "\u0131": "i",
        "ŋ": "n",
    }
)
"""Letters with a plain spelling that Unicode does not decompose."""


def terms(text: str) -> list[str]:
    """The words of a text without stopwords, in order, repeated as often as they occur."""
    return [word for word in words(text) if word not in STOPWORDS]


def words(text: str) -> list[str]:
    """Lower-cased, accent-folded runs of letters and digits, stopwords included."""
    return _WORD.findall(folded(text))


def folded(text: str) -> str:
    """Lower case without accents: "Škoda" and "SKODA" are "skoda"."""
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text).lower()).translate(_LETTERS)
