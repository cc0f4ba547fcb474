"""The nouns of product titles, which WebShop's reward compares: our own finder in place of its part-of-speech tagger.

WebShop takes the nouns and proper nouns of spaCy's en_core_web_sm, a model that PyPI does not have. Titles are strings
of nouns, so that leaving out what is none comes near: function words, numbers, adjectives known by list or by ending.
Rewards can differ from WebShop's where a title shares few words with the wanted one, and nowhere else.
"""

import re

from certigraph.adapters.retrieval.analyzer import STOPWORDS

_WORD = re.compile(r"[a-z]+")

_QUALITIES = """
big large small medium mini long short wide narrow thin thick tall slim heavy light deep high low soft hard strong
new old young fresh clean dry wet hot cold warm cool dark bright clear pure raw rich smooth rough sharp flat round
square black white red blue green yellow brown grey gray pink purple beige golden wooden woolen upholstered easy
free full empty fast quick slow great good best better nice cute sexy casual formal modern classic vintage natural
organic artificial synthetic genuine premium professional personal electric electronic digital wireless automatic
manual double single multi non extra ultra super compatible universal original official perfect ideal
vegan healthy daily outdoor indoor right left upper lower inner outer front back
"""
_OTHERS = "w include includes including come comes make makes made use used get buy fit fits one two"
_ENDINGS = ("able", "ible", "ful", "less", "ous", "ive", "ish", "proof", "resistant", "ly")
_THINGS = "cable table vegetable sleeve olive adhesive jewelry family belly jelly supply assembly fly"

NO_NOUNS = STOPWORDS.union(_QUALITIES.split(), _OTHERS.split())
NOUNS = frozenset(_THINGS.split())
"""Nouns that end like adjectives."""


def nouns(title: str) -> list[str]:
    """The nouns of a title, lower-cased, in order, repeated as often as they occur."""
    return [word for word in _WORD.findall(title.lower()) if _is_noun(word)]


def _is_noun(word: str) -> bool:
    if word in NO_NOUNS or len(word) == 1:
        return False
    return word in NOUNS or not word.endswith(_ENDINGS)
