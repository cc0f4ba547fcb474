"""The invented web's answers, worked out again from nothing but the text of pages that were read over HTTP."""

import re

import pytest

from certigraph.adapters.assistantbench.price_questions import SEEDS, all_pages, everything, made
from certigraph.adapters.assistantbench.server import Server
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import Page
from certigraph.state.search import COMPUTE


@pytest.fixture(scope="module")
def read():
    serving = Server(all_pages(everything()))
    fetcher = Fetcher(timeout=5.0, hosts={".example": serving.address})

    def text(url):
        got = fetcher.page(url)
        assert isinstance(got, Page), got
        return got.text

    yield text
    serving.close()


def cells(text):
    """The rows of a page's tables."""
    lines = [line.strip("| ") for line in text.splitlines() if "|" in line]
    return [[cell.strip() for cell in line.split("|")] for line in lines if not set(line) <= set("|-: ")]


@pytest.mark.parametrize("seed", SEEDS)
def test_gyms(read, seed):
    question = made("gyms", seed).question
    limit = int(re.search(r"within (\d+) metres", question.text)[1])
    guide, times = question.way[0].pages[0], question.way[2].finding.sources
    near = {row[0] for row in cells(read(guide))[1:] if int(row[1].split()[0]) <= limit}
    early = set()
    for url in times:
        text = read(url)
        (gym,) = (name for name in near if name in text)
        if min(row[1] for row in cells(text)[1:]) < "07:00":
            early.add(gym)
    assert early == {*question.answer.split("\n")}


@pytest.mark.parametrize("seed", SEEDS)
def test_museum(read, seed):
    question = made("museum", seed).question
    adults, children, visits = map(int, re.findall(r"(\d+) (?:adults|children|times)", question.text))

    def price(url):
        (adult, child) = (int(row[1].split()[0]) for row in cells(read(url))[1:])
        return adults * adult + children * child

    day, year = (way.finding.sources[0] for way in question.way[:2])
    assert visits * price(day) - price(year) == int(question.answer)


@pytest.mark.parametrize("seed", SEEDS)
def test_weather(read, seed):
    question = made("weather", seed).question
    pages = [url for way in question.way[:2] for url in way.finding.sources]
    amounts = [float(row[1].split()[0]) for url in pages for row in cells(read(url))[1:]]
    assert len(amounts) == 20
    assert 5 * sum(amount >= 0.5 for amount in amounts) == int(question.answer)


@pytest.mark.slow
@pytest.mark.parametrize("question", [one.question for one in everything()], ids=lambda question: question.id)
def test_every_number_and_name_of_a_finding_is_on_its_pages_or_known_before(read, question):
    known = question.text
    for way in question.way:
        known += " ".join(read(url) for url in way.finding.sources)
        assert way.kind == COMPUTE or missing(way.finding.text, known) == []
        assert missing(way.finding.dispute, known + "".join(read(url) for url in way.finding.against)) == []
        assert not way.finding.against or missing(way.finding.dispute, known)


def missing(finding, told):
    """Its numbers, and its words with a capital letter that do not begin a sentence, as far as they are not told."""
    return [fact for fact in re.findall(r"\d+(?:[.:]\d+)?|(?<!^)(?<!\. )[A-Z]\w+", finding) if fact not in told]
