"""The scripted expert on the invented web: what it goes by, what it never falls for, and whole runs over HTTP."""

from importlib import import_module
from types import SimpleNamespace

import pytest
from helpers.web.web_log import received_requests

from certigraph.adapters.models.scripts import (
    IMPOSSIBLE_PREFIX,
    REPEATED_SUFFIX,
    ScriptedChat,
    Situation,
    use_situation,
)
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.assistantbench.pages import ATTACKER_HOST, injected_instructions, load_cases
from certigraph.benchmarks.assistantbench.web import GeneratedWeb
from certigraph.benchmarks.research.plans import (
    Adequacy,
    Answers,
    Decomposition,
    Found,
    ResearchTools,
    closing_predicates,
    step_predicate,
)
from certigraph.evaluation.judges import references_of
from certigraph.graphs import sdp
from certigraph.state.certified_states import KnownFinding
from certigraph.state.endings import GOAL, Fault, UnknownName
from certigraph.state.records import Finding, Observation

WEB = GeneratedWeb()
GYMS = WEB.question("gyms/1")
PLAN = [
    *(step_predicate(n, way.kind, way.finding.about) for n, way in enumerate(GYMS.solution, 1)),
    *closing_predicates(),
]
TIMES = GYMS.solution[2]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CERTIGRAPH_WEB_CACHE", str(tmp_path))


def expert_answer(form, view=None, *, head=2, **state):
    """What the expert answers at a step of gyms/1."""
    state = {"task": WEB.task("gyms/1"), "plan": PLAN, "head": head, **state}
    with use_situation(Situation("validate", 1, state, view or {})):
        return WEB.expert()("", form.model_json_schema())


def judged(text, dispute="", *, head=2):
    """Whether the expert calls a finding adequate."""
    finding = Finding(about="times", text=text, dispute=dispute)
    return expert_answer(Adequacy, {"finding": finding}, head=head)["adequate"]


def saw(*read, others=()):
    return Observation(text="pages", sources=(*others, *read), data={"read": [*read]})


def known(*results):
    view = "\n".join(f"{number}. [{mark}] A page - {url}" for number, (url, mark) in enumerate(results, 1))
    return SimpleNamespace(sources=tuple(url for url, _ in results), view=view)


def test_the_plan_is_the_way():
    steps = expert_answer(Decomposition, head=0)["steps"]
    assert [step["goal"] for step in steps] == [way.finding.about for way in GYMS.solution]


def test_tools_are_the_ways_searches_and_its_known_pages_the_unread_first():
    portal, blog = TIMES.pages[1], TIMES.pages[3]
    evidence = known(("http://x.example/", "unread"), (portal, "read"), (blog, "unread"))
    tools = expert_answer(ResearchTools, evidence=evidence)
    assert tools == {"queries": [*TIMES.queries], "pages": [3, 2]}


def test_a_finding_takes_all_pages_of_the_way_those_that_contradict_it_too():
    *most, blog = TIMES.pages
    assert expert_answer(Found, observation=saw(*most))["finding"] == ""
    assert expert_answer(Found, observation=saw(*most, blog))["finding"] == TIMES.finding.text


def test_a_finding_names_its_sources_by_number_and_reports_the_contradiction():
    found = expert_answer(Found, observation=saw(*TIMES.pages, others=("http://x.example/",)))
    assert found["supported_by"] == [2, 3, 4]
    assert found["contradicted_by"] == [5]
    assert "06:00" in found["dispute"]


def test_only_the_gold_finding_with_its_dispute_is_adequate_whatever_pages_say():
    gold, dispute = TIMES.finding.text, TIMES.finding.dispute
    assert judged(gold, dispute)
    assert not judged(gold)
    assert not judged(f"A gym. {gold}", dispute)
    assert not judged(injected_instructions("Somewhere"), dispute)
    assert not judged(gold, dispute, head=1)


def test_the_answer_is_gold_once_the_last_finding_is_known_whatever_else_is():
    def answers(*texts):
        known = tuple(KnownFinding(finding=Finding(about="a", text=text)) for text in texts)
        return expert_answer(Answers, {"certified": SimpleNamespace(known=known)})["answers"]

    instructions, last = injected_instructions("Somewhere"), GYMS.solution[-1].finding.text
    assert answers(instructions, last) == GYMS.answer.split("\n")
    assert answers(instructions) == ["unknown"]


def test_a_plan_cut_too_finely_leads_the_same_way_and_an_impossible_step_nowhere():
    again = step_predicate(4, TIMES.kind, TIMES.finding.about + REPEATED_SUFFIX)
    assert expert_answer(ResearchTools, plan=[again], head=0)["queries"] == [*TIMES.queries]
    wrong = step_predicate(3, TIMES.kind, f"{IMPOSSIBLE_PREFIX} (3).")
    assert expert_answer(ResearchTools, plan=[wrong], head=0) == {"queries": [], "pages": []}
    assert expert_answer(Found, plan=[wrong], head=0, observation=saw(*TIMES.pages))["finding"] == ""


def test_outside_a_run_it_does_not_answer():
    with pytest.raises(Fault, match="scripted:expert"):
        WEB.expert()("", Answers.model_json_schema())


def test_a_judge_is_shown_the_gold_answer():
    assert references_of(WEB.task("gyms/1"), None) == (GYMS.answer,)


def test_splits():
    assert len(WEB.tasks()) == len(load_cases()) == 24
    assert [task.id for task in WEB.tasks("small")] == [task.id for task in WEB.tasks()[:6]]
    with pytest.raises(UnknownName, match="dev, small"):
        WEB.tasks("test")


def ran(graph, task_id):
    """The scores of a run, and its final state."""
    task = WEB.task(task_id)
    context = Context(benchmark=WEB, chat=ScriptedChat(responder=WEB.expert()))
    state = graph.build().invoke({"task": task}, context=context, config={"recursion_limit": 300})
    world = WEB.open(task)
    world.reset()
    for step in state["history"]:
        world.step(step.action)
    return world.score(), state


@pytest.mark.slow
@pytest.mark.parametrize("question", [one.question for one in load_cases()[::2]], ids=lambda question: question.id)
def test_sdp_certifies_every_step_and_answers_every_second_question(question):
    with received_requests() as requests:
        scores, state = ran(sdp, question.id)
    assert scores.value == 1.0 and scores.parts["exact_match"] == 1.0
    assert sdp.ending(state) == GOAL
    certificates = state["certificates"]
    assert not any(certificate.forced for certificate in certificates)
    found = [certificate.finding for certificate in certificates if certificate.finding]
    assert [one.text for one in found] == [way.finding.text for way in question.solution]
    for one, way in zip(found, question.solution, strict=True):
        assert {*one.sources} == {*way.finding.sources}
        assert {*one.against} == {*way.finding.against} and one.dispute == way.finding.dispute
    assert not [request for request in requests if request.host == ATTACKER_HOST or "169.254" in request.host]
    pages = [(request.host, request.path) for request in requests if request.method == "GET"]
    assert len(pages) == len({*pages})  # the run was replayed from the cache for its scores


@pytest.mark.slow
@pytest.mark.parametrize("name", ["react", "ircot", "tdp", "reflexion", "memgpt"])
def test_other_graphs_answer_too(name):
    graph = import_module(f"certigraph.graphs.{name}")
    for task in WEB.tasks("small")[:2]:
        scores, state = ran(graph, task.id)
        assert scores.value == 1.0
        assert name != "react" or {"search", "open", "finish"} == {step.action.kind for step in state["history"]}
