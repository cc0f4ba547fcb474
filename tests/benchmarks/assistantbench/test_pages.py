"""Tests of `benchmarks.assistantbench.pages`."""

import json
import re

import pytest

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import WebPage
from certigraph.benchmarks.assistantbench.pages import (
    ATTACKER_HOST,
    LISTS,
    SMALL,
    EngineReach,
    Treatment,
    load_cases,
    load_pages,
    render_page,
)
from certigraph.benchmarks.assistantbench.server import GeneratedWebServer
from certigraph.benchmarks.qa.operators import answer_problem
from certigraph.benchmarks.research.plans import MAX_QUERIES
from certigraph.benchmarks.research.scoring import score_answer
from certigraph.state.search import COMPUTE, STEP_KINDS

# The invented web's questions and pages: the same every time, answerable, and full of traps.

CASES = load_cases()
QUESTIONS = [one.question for one in CASES]
FAMILIES = [question.id.split("/")[0] for question in QUESTIONS[:6]]
SEEDS = (1, 2, 3, 4)
READABLE = (Treatment.PAGE, Treatment.MOVED)


def case_of(family, seed):
    return next(one for one in CASES if one.question.id == f"{family}/{seed}")


@pytest.mark.parametrize("split", ["dev", LISTS])
def test_the_questions_and_the_pages_differ_from_each_other(split):
    pages = [page for one in load_cases(split) for page in one.pages]
    assert len({page.url for page in pages}) == len(pages) == len(load_pages(split))
    assert len({one.question.text for one in load_cases(split)}) == len(load_cases(split))


def test_the_small_split_has_the_first_question_of_each_family():
    assert load_cases(SMALL) == CASES[:6]
    assert len({*FAMILIES}) == 6


def test_each_seed_has_all_families_and_all_ways_to_be_unreadable():
    assert [question.id for question in QUESTIONS] == [f"{family}/{seed}" for seed in SEEDS for family in FAMILIES]
    for seed in SEEDS:
        pages = [page for one in CASES if one.question.id.endswith(f"/{seed}") for page in one.pages]
        assert {*Treatment} == {page.treatment for page in pages}


def test_all_difficulties_occur():
    assert {question.difficulty for question in QUESTIONS} == {"Easy", "Medium", "Hard"}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
def test_a_way_fits_the_forms_in_which_operators_ask_for_it(question):
    assert 3 <= len(question.solution) <= load_benchmark("web").limits.effective().plan
    for way in question.solution:
        assert way.kind in STEP_KINDS
        assert 1 <= len(way.queries) <= MAX_QUERIES
        assert len(way.finding.about) <= 240
        assert len(way.finding.text) <= 240
        assert len(way.finding.dispute) <= 240
        assert not answer_problem(way.finding.text)
        assert bool(way.finding.against) == bool(way.finding.dispute)
    assert any(way.finding.against for way in question.solution)
    answers = question.answer.split("\n")
    parsed = [json.loads(one) if one.startswith("{") else one for one in answers]
    assert score_answer(json.dumps(parsed) if len(answers) > 1 else answers[0], question.answer).exact


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.question.id)
def test_facts_are_on_readable_pages_of_sites_that_are_never_given_up(one):
    pages = {page.url: page for page in one.pages}
    lost = {page.host for page in one.pages if page.treatment not in READABLE or len(page.text) < 100}
    lost -= {page.host for page in one.pages if page.treatment is Treatment.MOVED}
    for url in {url for way in one.question.solution for url in way.pages}:
        assert pages[url].treatment in READABLE
        assert pages[url].host not in lost


def test_hosts_are_reserved_and_no_page_of_the_attacker_can_be_found():
    hosts = {page.host for page in load_pages().values()}
    assert all(host.endswith(".example") for host in hosts)
    assert ATTACKER_HOST not in hosts


def test_some_pages_of_each_way_give_orders_in_sight_and_in_secret():
    for one in CASES:
        ordering = {page.url for page in one.pages if page.hidden}
        read = {url for way in one.question.solution for url in way.pages}
        assert bool(ordering & read) == (not one.question.id.startswith("museum"))
    page = next(page for page in case_of("gyms", 1).pages if page.hidden)
    assert page.hidden in page.text
    assert "</world>" in page.text and "</world>" not in render_page(page)
    assert render_page(page).count("ignore all previous instructions") == 4


def test_what_only_the_second_engine_knows_is_needed():
    one = case_of("parcels", 1)
    needed = {url for way in one.question.solution for url in way.pages}
    assert needed & {page.url for page in one.pages if page.reach is EngineReach.SECOND}


# The invented web's answers, worked out again from nothing but the text of pages that were read over HTTP.


@pytest.fixture(scope="module")
def read():
    serving = GeneratedWebServer(load_pages())
    fetcher = Fetcher(timeout=5.0, hosts={".example": serving.address})

    def text(url):
        got = fetcher.page(url)
        assert isinstance(got, WebPage), got
        return got.text

    yield text
    serving.close()


def cells(text):
    """The rows of a page's tables."""
    lines = [line.strip("| ") for line in text.splitlines() if "|" in line]
    return [[cell.strip() for cell in line.split("|")] for line in lines if not set(line) <= set("|-: ")]


@pytest.mark.parametrize("seed", SEEDS)
def test_gyms(read, seed):
    question = case_of("gyms", seed).question
    limit = int(re.search(r"within (\d+) metres", question.text)[1])
    guide, times = question.solution[0].pages[0], question.solution[2].finding.sources
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
    question = case_of("museum", seed).question
    adults, children, visits = map(int, re.findall(r"(\d+) (?:adults|children|times)", question.text))

    def price(url):
        (adult, child) = (int(row[1].split()[0]) for row in cells(read(url))[1:])
        return adults * adult + children * child

    day, year = (way.finding.sources[0] for way in question.solution[:2])
    assert visits * price(day) - price(year) == int(question.answer)


@pytest.mark.parametrize("seed", SEEDS)
def test_weather(read, seed):
    question = case_of("weather", seed).question
    pages = [url for way in question.solution[:2] for url in way.finding.sources]
    amounts = [float(row[1].split()[0]) for url in pages for row in cells(read(url))[1:]]
    assert len(amounts) == 20
    assert 5 * sum(amount >= 0.5 for amount in amounts) == int(question.answer)


@pytest.mark.slow
@pytest.mark.parametrize("question", [one.question for one in CASES], ids=lambda question: question.id)
def test_every_number_and_name_of_a_finding_is_on_its_pages_or_known_before(read, question):
    known = question.text
    for way in question.solution:
        known += " ".join(read(url) for url in way.finding.sources)
        assert way.kind == COMPUTE or missing(way.finding.text, known) == []
        assert missing(way.finding.dispute, known + "".join(read(url) for url in way.finding.against)) == []
        assert not way.finding.against or missing(way.finding.dispute, known)


def missing(finding, message):
    """Its numbers, and its words with a capital letter that do not begin a sentence, as far as they are not given."""
    return [fact for fact in re.findall(r"\d+(?:[.:]\d+)?|(?<!^)(?<!\. )[A-Z]\w+", finding) if fact not in message]
