"""TDP's scopes: no prompt about a sub-task holds a word of one that it does not build on (section 3.3)."""

from collections.abc import Mapping
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest
from decoupled import KINDS, NEEDS, Asked, Cast, canary, decoupled, facts_of, looking
from records_world import WHOLE, Records

from certigraph.adapters.hotpotqa.benchmark import HotpotQA
from certigraph.graphs import sdp, subtask
from certigraph.nodes.gates import exhaustion_gate, judged_gate
from certigraph.nodes.react import pursue

CANARIES = {canary(kind, id_): id_ for kind in KINDS for id_ in NEEDS}

SCOPES = {**{id_: {id_} for id_ in "abc"}, "d": {*"abd"}, "e": {*"ce"}, "g": {*NEEDS}}
"""Each sub-task and all that it builds on."""


def strangers(asked: list[Asked], canaries: Mapping[str, str] = CANARIES) -> set[tuple[str, str, str]]:
    """(operator, sub-task, canary) of what stands in a prompt and is of a sub-task that its own does not build on."""
    return {
        (one.operator, one.subtask, found)
        for one in about_one(asked)
        for found, owner in canaries.items()
        if found in one.prompt and owner not in SCOPES[one.subtask]
    }


def about_one(asked: list[Asked]) -> list[Asked]:
    """The prompts of who plans, carries out and supervises sub-tasks, not of who decomposes and revises the whole."""
    return [one for one in asked if one.operator not in ("decompose", "revise")]


def told(cast: Cast, operator: str, id_: str) -> set[str]:
    """The canaries in an operator's last prompt about a sub-task, by kind and owner."""
    prompt = cast.prompts(operator, id_)[-1]
    return {found.removesuffix("-canary") for found in CANARIES if found in prompt}


WITHIN: dict[str, dict[str, Any]] = {
    "plain": {},
    "structured": {"memory": "structured"},
    "freeform": {"memory": "freeform"},
    "gated": {"gate": exhaustion_gate()},
    "judged": {"memory": "structured", "gate": judged_gate()},
    "built": {"solve": subtask.build(memory="lobotomized")},
    "certified": {"solve": sdp},
}


@pytest.mark.parametrize("concurrent", [True, False], ids=["concurrent", "serial"])
@pytest.mark.parametrize("within", WITHIN)
def test_no_prompt_knows_of_a_subtask_that_its_own_does_not_build_on(within: str, concurrent: bool, tmp_path: Path):
    cast = Cast(looking([*NEEDS]))
    world = Records(facts_of([*NEEDS]), concurrent=concurrent, attempts=1)
    result = decoupled(cast, world, tmp_path, **WITHIN[within])
    assert result.ending == "goal"
    assert {one.subtask for one in about_one(cast.asked)} == {*NEEDS}
    assert strangers(cast.asked) == set()
    assert {one.subtask for one in about_one(cast.asked) if WHOLE in one.prompt} == {"g"}


def test_every_operator_is_told_what_is_in_its_scope(tmp_path: Path):
    cast = Cast(looking([*NEEDS]))
    decoupled(cast, Records(facts_of([*NEEDS])), tmp_path)
    known = {"SPEC-g", "RESULT-d", "RESULT-e"}
    assert known <= told(cast, "plan", "g")
    assert {*known, "SEEN-g", "PLAN-g", "WHY-g"} <= told(cast, "replan", "g")
    assert {*known, "SEEN-g", "PLAN-g", "GUIDE-g"} <= told(cast, "execute", "g")
    assert {*known, "SEEN-g", "PLAN-g"} <= told(cast, "supervise", "g")
    assert "RESULT-a" not in told(cast, "plan", "g"), "of what it builds on it is told the results that it needs"


def test_what_memory_holds_reaches_planner_and_supervisor_of_its_own_subtask(tmp_path: Path):
    cast = Cast({id_: [*actions, actions[0]] for id_, actions in looking([*NEEDS]).items()})
    decoupled(cast, Records(facts_of([*NEEDS])), tmp_path, memory="structured")
    for operator in ("replan", "execute", "supervise"):
        assert "FACT-d" in told(cast, operator, "d")


def test_ready_subtasks_are_at_work_at_the_same_time(tmp_path: Path):
    cast = Cast(looking([*NEEDS]))
    decoupled(cast, Records(facts_of([*NEEDS])), tmp_path)
    batch = [asked.subtask for asked in cast.asked if asked.subtask in "abc"]
    first, last = ({id_: order.index(id_) for id_ in "abc"} for order in (batch, batch[::-1]))
    assert all(first[one] + last[other] < len(batch) - 1 for one, other in permutations("abc", 2))


@pytest.mark.parametrize("config", ["interactive", "corpus"])
@pytest.mark.parametrize("within", ["plain", "judged"])
def test_no_prompt_of_a_question_knows_the_pages_of_an_unrelated_subtask(config: str, within: str, tmp_path: Path):
    benchmark = HotpotQA(None, config)
    benchmark.limits = benchmark.limits.model_copy(update={"steps": 60, "passages": 1, "nodes": 8})
    pages = dict(zip(NEEDS, _unrelated_pages(benchmark), strict=False))
    actions = {
        i: [*(f"search[{title}]" for title in two), f"finish[{canary('RESULT', i)}]"] for i, two in pages.items()
    }
    cast = Cast(actions)
    without_vectors = {"execute": pursue(alpha=1.0)}  # an encoder takes seconds to load
    result = decoupled(cast, benchmark, tmp_path, **WITHIN[within], **without_vectors)
    assert result.state["observation"].text == f"Handed in: {canary('RESULT', 'g')}"
    titles = {title: id_ for id_, two in pages.items() for title in two}
    assert strangers(cast.asked, {**CANARIES, **titles}) == set()
    assert all(title in cast.prompts("replan", id_)[0] for id_, (title, _) in pages.items())
    assert {one.subtask for one in about_one(cast.asked) if benchmark.tasks()[0].goal in one.prompt} == {"g"}


def _unrelated_pages(benchmark: HotpotQA) -> list[tuple[str, str]]:
    """Titles by twos, none of which another page tells of."""
    texts = {title: " ".join(lines) for question in benchmark.bank.all() for title, lines in question.sentences.items()}
    apart: list[str] = []
    for title, text in texts.items():
        if not any(title in texts[other] or other in text for other in apart):
            apart.append(title)
    assert not any(one in other or other in one for one, other in combinations(apart, 2))
    return list(zip(apart[::2], apart[1::2], strict=False))
