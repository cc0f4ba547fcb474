"""Questions over the invented encyclopedia: chains of two to four hops, comparisons, yes or no."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from random import Random
from typing import NamedTuple

from certigraph.adapters.searching.invented import Entry, encyclopedia

TASKS = 20

CHAINS: Mapping[int, Sequence[tuple[str, ...]]] = {
    2: (
        ("person", "birthplace", "county"),
        ("company", "founder", "birthplace"),
        ("book", "publisher", "seat"),
        ("book", "author", "birthplace"),
        ("company", "seat", "river"),
    ),
    3: (
        ("company", "founder", "birthplace", "river"),
        ("book", "publisher", "founder", "birthplace"),
        ("person", "employer", "seat", "county"),
    ),
    4: (
        ("book", "publisher", "founder", "birthplace", "county"),
        ("person", "employer", "founder", "birthplace", "river"),
    ),
}
"""By the number of hops: the kind of entry that a chain starts from, then its relations."""

PHRASES = {
    "birthplace": "the birthplace of {}",
    "employer": "the employer of {}",
    "founder": "the founder of {}",
    "seat": "the town where {} has its head office",
    "author": "the author of {}",
    "publisher": "the first publisher of {}",
}
ENDS = {
    "birthplace": "In which town was {} born?",
    "employer": "Which company did {} work for?",
    "county": "Which county does {} belong to?",
    "river": "Which river flows by {}?",
    "founder": "Who founded {}?",
    "seat": "In which town does {} have its head office?",
    "author": "Who wrote {}?",
    "publisher": "Which company first published {}?",
}


class Step(NamedTuple):
    """One hop: what is asked, of which entry, and the answer."""

    question: str
    entry: Entry
    relation: str
    answer: str


class Invented(NamedTuple):
    """A generated question, its steps, and the pages that come with it, shuffled."""

    question: str
    answer: str
    steps: tuple[Step, ...]
    pages: tuple[Entry, ...]


def chains(seed: int | str, hops: Sequence[int], pages: int) -> Iterator[Invented]:
    """A question for each number of hops, no two of them alike; each with `pages` pages."""
    world, random, asked = encyclopedia(seed), Random(f"{seed} chains"), set[str]()
    for number, length in enumerate(hops):
        kind, *relations = CHAINS[length][number % len(CHAINS[length])]
        starts = [entry for entry in world.values() if entry.kind == kind]
        made = (_chain(world, start, relations) for start in random.sample(starts, len(starts)))
        question, steps = next((q, s) for q, s in made if q not in asked and _sound(s))
        asked.add(question)
        yield Invented(question, steps[-1].answer, steps, _pages(world, steps, pages, random))


def comparisons(seed: int | str, count: int, pages: int) -> Iterator[Invented]:
    """Which of two companies is older, and whether two people come from one town, in turn."""
    world, random, asked = encyclopedia(seed), Random(f"{seed} comparisons"), set[str]()
    for number in range(count):
        kind, compared = (("company", _older), ("person", _same_town))[number % 2]
        entries = [entry for entry in world.values() if entry.kind == kind]
        made = (compared(*random.sample(entries, 2)) for _ in repeat(None))
        # Every other question of yes or no is to be answered with yes, which is rarer.
        question, answer, steps = next(m for m in made if m[0] not in asked and (number % 4 != 1 or m[1] == "yes"))
        asked.add(question)
        yield Invented(question, answer, steps, _pages(world, steps, pages, random))


def _chain(world: Mapping[str, Entry], start: Entry, relations: Sequence[str]) -> tuple[str, tuple[Step, ...]]:
    steps, entry, phrase = list[Step](), start, start.title
    for number, relation in enumerate(relations):
        answer = entry.facts[relation]
        steps.append(Step(ENDS[relation].format(f"#{number}" if number else start.title), entry, relation, answer))
        last = number == len(relations) - 1
        phrase = (ENDS if last else PHRASES)[relation].format(phrase)
        entry = entry if last else world[answer]
    return phrase, tuple(steps)


def _sound(steps: Sequence[Step]) -> bool:
    """Whether every step leads to a page that was not visited, so that no step can be skipped."""
    titles = [step.entry.title for step in steps]
    return len(set(titles)) == len(titles) and steps[-1].answer not in titles


def _older(one: Entry, other: Entry) -> tuple[str, str, tuple[Step, ...]]:
    first = min(one, other, key=lambda entry: entry.facts["founded"])
    question = f"Which company was founded first, {one.title} or {other.title}?"
    return question, first.title, _both("founded", "In which year was {} founded?", one, other)


def _same_town(one: Entry, other: Entry) -> tuple[str, str, tuple[Step, ...]]:
    same = one.facts["birthplace"] == other.facts["birthplace"]
    question = f"Were {one.title} and {other.title} born in the same town?"
    return question, "yes" if same else "no", _both("birthplace", ENDS["birthplace"], one, other)


def _both(relation: str, question: str, *entries: Entry) -> tuple[Step, ...]:
    return tuple(Step(question.format(entry.title), entry, relation, entry.facts[relation]) for entry in entries)


def _pages(world: Mapping[str, Entry], steps: Sequence[Step], count: int, random: Random) -> tuple[Entry, ...]:
    needed = list({step.entry.title: step.entry for step in steps}.values())
    others = [entry for entry in world.values() if entry not in needed]
    pages = [*needed, *random.sample(others, count - len(needed))]
    random.shuffle(pages)
    return tuple(pages)
