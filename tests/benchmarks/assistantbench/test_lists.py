"""Questions whose answers are lists of 10 to 40 items over several pages: no item is lost on the way to the answer."""

import pytest

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import WebPage
from certigraph.benchmarks.assistantbench.pages import LISTS, Treatment, load_cases
from certigraph.benchmarks.assistantbench.web import GeneratedWeb, start_server
from certigraph.benchmarks.qa.operators import find_unseen_quotes
from certigraph.graphs import sdp
from certigraph.state.endings import GOAL

WEB = GeneratedWeb()
CASES = load_cases(LISTS)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CERTIGRAPH_WEB_CACHE", str(tmp_path))


def ran(graph, question):
    """The scores of a run, its final state, the prompts, and the observations."""
    task, prompts, expert = WEB.task(question.id), [], WEB.expert()

    def responder(prompt, schema):
        prompts.append(prompt)
        return expert(prompt, schema)

    context = Context(benchmark=WEB, chat=ScriptedChat(responder=responder))
    state = graph.build().invoke({"task": task}, context=context, config={"recursion_limit": 300})
    world = WEB.open(task)
    world.reset()
    seen = [world.step(step.action) for step in state["history"]]
    return world.score(), state, prompts, seen


def test_the_split_has_a_question_of_each_size():
    assert [task.id for task in WEB.tasks(LISTS)] == [f"guild/{seed}" for seed in range(1, 5)]
    assert [len(case.question.answer.split("\n")) for case in CASES] == [10, 18, 28, 40]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.question.id)
def test_the_items_of_each_step_are_on_several_pages_with_the_words_quoted(case):
    fetcher = Fetcher(timeout=5.0, hosts={".example": start_server(LISTS).address})
    texts = {}
    for step in case.question.solution:
        for url in step.pages:
            page = fetcher.page(url)
            assert isinstance(page, WebPage), page
            texts[url] = page.text
        assert all(not find_unseen_quotes([item.quote], texts[item.source]) for item in step.finding.items)
        assert all(item.name in step.finding.text and item.detail in item.quote for item in step.finding.items)
    collected, extracted, enough, left, ordered = (step.finding.items for step in case.question.solution)
    assert all(len(step.pages) >= 2 for step in case.question.solution if step.pages)
    assert len({item.source for item in collected}) >= 2
    assert {item.name for item in collected} == {item.name for item in extracted}
    assert {item.name for item in ordered} == {item.name for item in left} < {item.name for item in enough}
    assert [item.name for item in ordered] == case.question.answer.split("\n")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.question.id)
def test_every_item_goes_through_all_five_steps_into_the_answer(case):
    scores, state, prompts, _ = ran(sdp, case.question)
    assert (scores.value, scores.parts["exact_match"]) == (1.0, 1.0)
    assert sdp.ending(state) == GOAL
    found = [certificate.finding for certificate in state["certificates"] if certificate.finding]
    assert [one.items for one in found] == [step.finding.items for step in case.question.solution]
    assert len(found) == 5
    assert not any(certificate.forced for certificate in state["certificates"])
    for number, step in enumerate(case.question.solution):
        following = [prompt for prompt in prompts if number + 1 < 5 and f"): {found[number + 1].about}" in prompt]
        assert number == 4 or following
        assert all(item.name in prompt and item.detail in prompt for prompt in following for item in step.finding.items)
    concluded = prompts[-2]
    assert all(item.quote in concluded for one in found for item in one.items)


@pytest.mark.slow
def test_a_list_of_ten_goes_through_all_five_steps_although_a_first_hit_is_unreadable():
    scores, state, _, seen = ran(sdp, CASES[0].question)
    assert scores.value == 1.0
    blocked = {page.url for page in CASES[0].pages if page.treatment is not Treatment.PAGE}
    met = [one.data for one in seen if blocked & {*one.data.get("unreadable", ())}]
    assert met and all(data["read"] for data in met)
    lists = [certificate.finding for certificate in state["certificates"] if certificate.finding]
    assert [len(one.items) for one in lists] == [len(step.finding.items) for step in CASES[0].question.solution]
