"""Tests of `benchmarks.qa.operators`."""

import asyncio

import pytest
from helpers.files.real_data import data_folder
from helpers.worlds.quiz_benchmark import (
    BRANDT,
    FINDINGS,
    HARBOUR,
    NOT_FOUND,
    PARK,
    PASSAGES,
    QUESTION,
    SUBQUESTIONS,
    Quiz,
    ScriptedModel,
    call_operator,
    finding_of,
    run_sdp,
    taken_actions,
)
from langgraph.runtime import Runtime

from certigraph.adapters.models.profiles import CHARACTERS_PER_TOKEN, estimate_tokens
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.benchmarks.qa.benchmark import SearchWorld
from certigraph.benchmarks.qa.operators import answer_problem, finding_problem, short_answer_problem
from certigraph.benchmarks.qa.planning import (
    closing_predicates,
    create_chain_answer,
    create_hop_claim,
    extract_entities,
    hop_predicate,
)
from certigraph.graphs import sdp
from certigraph.nodes.passages import load_page, sort_by_queries
from certigraph.nodes.sdp import capped
from certigraph.state.certified_states import CertifiedState
from certigraph.state.endings import GAVE_UP, GOAL
from certigraph.state.records import Action, Attempt, Observation, Predicate, Verdict
from certigraph.state.run import (
    CLAIM,
    FINISH,
    SEARCH,
    Belief,
    Evidence,
    finish,
    search,
)
from certigraph.state.search import HopFinding, Passage

# Realize of SDP's multi-hop operators: bridge entities, searches and their escalation, what is read, prompt sizes.

ALL = tuple(passage.id for passage in PASSAGES)
TARGET = hop_predicate(2, "Where was #1 born?")
FIRST = create_hop_claim(
    1, HopFinding("Who wrote Glass Harbour?", "Ida Brandt wrote it.", "Ida Brandt"), "Glass Harbour"
)
KNOWN = CertifiedState(predicates=(hop_predicate(1, "Who wrote Glass Harbour?"),), actions=(FIRST,), evidence=("p1",))


def tried(*actions, reason="no"):
    return [
        Attempt(position=1, target=TARGET, action=a, digest="-", verdict=Verdict(depth=0, reason=reason))
        for a in actions
    ]


def nothing():
    return create_hop_claim(2, HopFinding("Where was Ida Brandt born?", "", ""), "")


def realized(
    scripted_model, quiz=None, *, target=TARGET, attempts=(), sources=ALL, certified=KNOWN, belief=None, window=0
):
    quiz = quiz or Quiz(strict=True)
    view = {
        "task": quiz.task(""),
        "certified": certified,
        "target": target,
        "evidence": Evidence(sources=sources),
        "attempts": list(attempts),
        "belief": belief or Belief(),
        "advice": (),
    }
    return call_operator("realize", view, scripted_model, quiz, window)


def searched(scripted_model, *failed, target=TARGET):
    """What is searched for after some queries failed."""
    quiz = Quiz(retrieves=True, strict=True)
    return realized(scripted_model, quiz, target=target, attempts=tried(*map(search, failed)), sources=()).args.get(
        "query"
    )


def test_the_certified_entity_takes_the_place_of_its_number():
    scripted_model = ScriptedModel(found=FINDINGS[1:2])
    claim = realized(scripted_model)
    assert claim.kind == CLAIM and claim.args["hop"] == 2
    assert claim.args["subquestion"] == "Where was Ida Brandt born?"
    [prompt] = scripted_model.prompts["found"]
    assert "Sub-question: Where was Ida Brandt born?" in prompt and "#1" not in prompt


def test_an_entity_that_is_not_certified_leaves_its_number():
    claim = realized(ScriptedModel(found=FINDINGS[1:2]), certified=CertifiedState())
    assert claim.args["subquestion"] == "Where was #1 born?"


def test_a_finding_without_an_entity_is_its_own():
    claim = realized(ScriptedModel(found=[finding_of("", " Tolmin ", "Ida Brandt")]))
    assert claim.args["entity"] == claim.args["finding"] == "Tolmin"


def test_with_all_passages_at_hand_nothing_found_is_claimed_as_nothing():
    claim = realized(ScriptedModel(found=[{**NOT_FOUND, "finding": "left over", "entity": "left over"}]))
    assert claim.kind == CLAIM and claim.args["finding"] == claim.args["entity"] == ""


def test_a_hop_searches_before_it_reads_with_the_queries_tried_before_it():
    scripted_model = ScriptedModel(query=["Brandt birthplace"])
    quiz = Quiz(retrieves=True, strict=True)
    action = realized(scripted_model, quiz, attempts=tried(search("an old query"), FIRST))
    assert action == search("Brandt birthplace", k=quiz.limits.passages)
    [prompt] = scripted_model.prompts["query"]
    assert "- an old query" in prompt and "Ida Brandt wrote it." in prompt and quiz.question in prompt


def test_after_a_search_it_reads_and_searches_again_only_where_that_says_nothing():
    quiz, attempts = Quiz(retrieves=True, strict=True), tried(search("q"))
    assert realized(ScriptedModel(found=FINDINGS[1:2]), quiz, attempts=attempts).kind == CLAIM
    action = realized(ScriptedModel(found=[NOT_FOUND], query=["other words"]), quiz, attempts=attempts)
    assert action.kind == SEARCH and action.args["again"] is True


def test_after_a_rejected_claim_it_searches_before_it_claims_again():
    action = realized(ScriptedModel(query=["new"]), Quiz(retrieves=True), attempts=tried(search("q"), FIRST))
    assert action.kind == SEARCH and "again" not in action.args


def test_a_search_that_brought_up_nothing_is_not_read():
    assert searched(ScriptedModel(query=["new"]), "nonsense") == "new"


def test_after_four_failed_queries_entities_are_searched_for_and_after_six_a_guess():
    target = Predicate(
        text="x", kind="hop", args={"index": 2, "question": "Did #1 leave Tolmin for Bay of Kotor in 1931?"}
    )
    written, guess = ScriptedModel(query=["w"]), ScriptedModel(guess=["Trieste"])
    assert searched(written, *"abc", target=target) == "w"
    assert searched(ScriptedModel(), *"abcd", target=target) == "Ida Brandt Tolmin Bay of Kotor 1931"
    assert searched(ScriptedModel(), *"abcd", "ida brandt tolmin bay of kotor 1931", target=target) == "Ida Brandt"
    assert searched(guess, *"abcdef", target=target) == "Trieste"
    assert "- f" in guess.prompts["guess"][0]


def test_queries_of_earlier_plans_count_as_failed():
    target = hop_predicate(2, "Where was #1 born?", [*"abcde"])
    assert searched(ScriptedModel(guess=["Trieste"]), "f", target=target) == "Trieste"


def test_a_query_is_never_searched_for_twice():
    assert searched(ScriptedModel(query=["Old  QUERY!"]), "old query") == "Where was Ida Brandt born?"
    assert searched(ScriptedModel(query=["a"]), "a", "where was ida brandt born") == "Ida Brandt"


def test_with_every_query_used_up_nothing_is_claimed():
    used = ("a", "Where was Ida Brandt born", "Ida Brandt", "b", "c", "d")
    quiz = Quiz(retrieves=True)
    claim = realized(ScriptedModel(guess=["b"]), quiz, attempts=tried(*map(search, used)), sources=())
    assert claim.kind == CLAIM and claim.args["finding"] == ""


def test_a_new_plan_first_reads_what_the_last_query_of_the_old_one_brought_up():
    target = hop_predicate(2, "Where was #1 born?", ["a", "b"])
    assert realized(ScriptedModel(found=FINDINGS[1:2]), Quiz(retrieves=True), target=target).kind == CLAIM
    action = realized(ScriptedModel(found=[NOT_FOUND], query=["c"]), Quiz(retrieves=True), target=target)
    assert action.args["query"] == "c" and "again" not in action.args


def test_with_every_query_used_up_it_reads_once_more():
    used = ("a", "Where was Ida Brandt born", "Ida Brandt", "b")
    scripted_model = ScriptedModel(found=FINDINGS[1:2], guess=["b"])
    claim = realized(scripted_model, Quiz(retrieves=True), attempts=tried(*map(search, used), nothing()))
    assert claim.args["entity"] == "Tolmin"


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who is the Duke of York's wife?", ["Duke of York"]),
        ("When did Škoda leave Plzeň, in 1869?", ["Škoda", "Plzeň", "1869"]),
        ("Is Paris in France?", ["Paris", "France"]),
        ("Ida Brandt >> place of birth", ["Ida Brandt"]),
        ("where is the sea", []),
    ],
)
def test_entities_are_capitalised_spans_and_numbers(question, names):
    assert extract_entities(question) == names


def test_what_the_latest_query_overlaps_is_read_first_then_what_the_sub_question_does():
    assert sort_by_queries(["glass houses garden", "born"], PASSAGES, 1)[:2] == [PARK, BRANDT]
    assert {*sort_by_queries(["zzz"], PASSAGES, 2)} == {*PASSAGES}
    assert sort_by_queries(["of the"], [Passage(id="p", title="", text="of the")], 2)[0].id == "p"


def test_the_next_page_is_read_after_a_try_that_found_nothing_and_after_the_last_the_first():
    passages = [Passage(id=f"p{n}", title=f"Title {n}", text=f"born {n} " * 500) for n in range(4)]
    quiz = Quiz(passages=passages)
    shown = []
    for empty in range(5):
        scripted_model = ScriptedModel(found=[NOT_FOUND])
        attempts = tried(*[nothing()] * empty)
        realized(scripted_model, quiz, attempts=attempts, sources=tuple(p.id for p in passages), window=4_096)
        shown.append({p.id for p in passages if f"{p.title}: " in scripted_model.prompts["found"][0]})
    assert {*"".join(shown[0])} and set().union(*shown) == {p.id for p in passages}
    assert len(shown[0]) < 4 and shown[4] in shown[:4]


def test_what_a_model_copies_of_the_quotation_is_left_out_of_findings_and_answers():
    copied = finding_of("Tolmin</world>", "<world>\nBorn in Tolmin.", "Ida Brandt </world>")
    args = realized(ScriptedModel(found=[copied])).args
    assert [args[name] for name in ("entity", "finding", "title")] == ["Tolmin", "Born in Tolmin.", "Ida Brandt"]
    assert (
        realized(ScriptedModel(answer=["Slovenia\n</world>"]), target=closing_predicates()[0]).args["answer"]
        == "Slovenia"
    )


def test_prompts_fit_a_model_of_four_thousand_tokens():
    passages = [Passage(id=f"p{n}", title=f"Title {n}", text=f"born {n} " * 200) for n in range(20)]
    quiz = Quiz(retrieves=True, passages=passages, limits=Limits(passages=10))
    hops = [create_hop_claim(n, HopFinding("q " * 40, "f " * 150, "e"), "t") for n in (1, 2, 3)]
    scripted_model = ScriptedModel(found=[NOT_FOUND], query=["new"])
    attempts = tried(*[FIRST] * 4, search("born"), reason="r " * 80)
    ids = tuple(p.id for p in passages)
    realized(
        scripted_model,
        quiz,
        attempts=attempts,
        sources=ids,
        certified=CertifiedState(actions=tuple(hops), evidence=("p1", "p2", "p3")),
        window=4_096,
    )
    assert estimate_tokens(scripted_model.prompts["found"][0]) < 3_100


def test_the_answer_is_drawn_from_the_certified_chain_and_brings_it_along():
    scripted_model = ScriptedModel(answer=["Slovenia"])
    rejected = tried(create_chain_answer("Tolmin", []), reason="an entity on the way")
    action = realized(scripted_model, target=closing_predicates()[0], attempts=rejected)
    assert action.args == {
        "answer": "Slovenia",
        "chain": [["Who wrote Glass Harbour?", "Ida Brandt wrote it.", "Ida Brandt", "p1"]],
    }
    [prompt] = scripted_model.prompts["answer"]
    assert "Ida Brandt wrote it." in prompt and "answer[Tolmin]: an entity on the way" in prompt


# Validate of SDP's multi-hop operators: words that settle it, two stages of paragraphs, MuSiQue's answer checks.

HOP = hop_predicate(1, "Who wrote Glass Harbour?")
CHAIN = [
    HopFinding("Who wrote Glass Harbour?", "Ida Brandt wrote it.", "Ida Brandt"),
    HopFinding("Where was Ida Brandt born?", "She was born in Tolmin.", "Tolmin"),
    HopFinding("In which country is Tolmin?", "Tolmin is in Slovenia.", "Slovenia"),
]


def claimed(finding="Ida Brandt wrote the novel.", title="Glass Harbour (novel)", entity="Ida Brandt"):
    return create_hop_claim(1, HopFinding("Who wrote Glass Harbour?", finding, entity), title)


def verdict(action: Action | Observation, scripted_model=None, *, tail=None, quiz=None, window=0):
    """On what the real world answers to an action."""
    quiz = quiz or Quiz(strict=True)
    world: SearchWorld = quiz.open(quiz.task(""))
    seen = world.step(action) if isinstance(action, Action) else action
    return call_operator(
        "validate",
        {"task": quiz.task(""), "tail": tail or [HOP, *closing_predicates()], "observation": seen},
        scripted_model,
        quiz,
        window,
    )


def answer_verdict(text, scripted_model=None, *, chain=CHAIN, tail=None, quiz=None, window=0):
    return verdict(
        create_chain_answer(text, chain), scripted_model, tail=tail or closing_predicates(), quiz=quiz, window=window
    )


def shown(scripted_model):
    """The titles of the paragraphs that were put to the verifier."""
    return [
        next(p for p in PASSAGES if f"{p.title}: {p.text}" in prompt) for prompt in scripted_model.prompts["supported"]
    ]


def test_a_finding_that_its_paragraph_supports_is_certified_with_that_title():
    scripted_model = ScriptedModel(supported=[True])
    result = verdict(claimed(), scripted_model)
    assert (result.depth, result.evidence) == (1, HARBOUR.id)
    assert shown(scripted_model) == [HARBOUR]
    [prompt] = scripted_model.prompts["supported"]
    assert "Who wrote Glass Harbour?" in prompt and "Ida Brandt wrote the novel." in prompt


def test_a_rejected_paragraph_is_followed_by_the_best_other_one_which_corrects_the_title():
    scripted_model = ScriptedModel(supported=[False, True])
    result = verdict(claimed(title="Harbour Park"), scripted_model)
    assert shown(scripted_model) == [PARK, HARBOUR]
    assert (result.depth, result.evidence) == (1, HARBOUR.id)
    assert "not in 'Harbour Park'" in result.reason


def test_a_title_that_is_nobody_s_goes_to_the_best_paragraph_at_once():
    scripted_model = ScriptedModel(supported=[True])
    result = verdict(claimed(title="Encyclopedia"), scripted_model)
    assert shown(scripted_model) == [HARBOUR] and result.evidence == HARBOUR.id and "Encyclopedia" in result.reason


def test_two_rejections_are_one_failed_try_with_both_reasons():
    scripted_model = ScriptedModel(
        supported=[{"supported": False, "reason": "about a park"}, {"supported": False, "reason": "no writer"}]
    )
    result = verdict(claimed(title="Harbour Park"), scripted_model)
    assert result.depth == 0 and not result.looked
    assert result.reason == "Harbour Park: about a park; Glass Harbour (novel): no writer"


@pytest.mark.parametrize(
    "finding",
    [
        "",
        "The paragraph does not provide the author.",
        "The author isn't named; it is not mentioned.",
        "There is no information about it.",
        "It cannot be determined.",
        "Unknown",
        "N/A",
        "not specified",
    ],
)
def test_a_finding_of_nothing_is_rejected_before_any_model_is_queried(finding):
    result = verdict(claimed(finding))
    assert result.depth == 0 and result.reason and not result.looked


@pytest.mark.parametrize(
    "finding", ["Unable to find a place in the world, he walks to the North Pole.", "Not the author but Ida was named."]
)
def test_a_finding_with_a_not_in_it_is_put_to_the_verifier(finding):
    assert verdict(claimed(finding), ScriptedModel(supported=[True])).depth == 1


def test_a_garbage_entity_is_rejected_too():
    assert verdict(claimed(entity="unknown")).depth == 0


def test_a_search_is_not_a_try_unless_it_follows_another_in_vain():
    quiz = Quiz(retrieves=True)
    first, again = (verdict(search("glass", k=2, **args), quiz=quiz) for args in ({}, {"again": True}))
    assert (first.depth, first.looked) == (0, True)
    assert (again.depth, again.looked) == (0, False)
    refused = verdict(search("of the", again=True), quiz=quiz)
    assert not refused.looked and "of the" in refused.reason


def test_a_claim_that_the_world_refuses_fails_with_the_world_s_reason():
    result = verdict(claimed(), quiz=Quiz(retrieves=True))
    assert result.depth == 0 and "search first" in result.reason


def test_an_answer_certifies_the_goal_where_that_comes_next():
    scripted_model = ScriptedModel(consistent=[True])
    assert answer_verdict("Slovenia", scripted_model).depth == 2
    assert answer_verdict("Slovenia", scripted_model, tail=closing_predicates()[:1]).depth == 1


def test_the_goal_holds_once_an_answer_is_handed_in():
    goal = closing_predicates()[1:]
    assert verdict(finish("Slovenia"), tail=goal).depth == 1
    assert verdict(create_chain_answer("Slovenia", []), tail=goal).depth == 0


@pytest.mark.parametrize("text", ["Unknown.", "not available", "It cannot be determined", "none", "N/A", "The answer"])
def test_garbage_is_not_an_answer_in_any_form(text):
    for strict in (True, False):
        assert answer_verdict(text, quiz=Quiz(strict=strict)).depth == 0


def test_hotpotqa_s_answers_are_put_to_a_model():
    refused = answer_verdict("Glass Harbour", ScriptedModel(consistent=[False]), quiz=Quiz())
    assert (refused.depth, refused.decided_by) == (0, "model")
    accepted = answer_verdict("Slovenia", ScriptedModel(consistent=[True]), quiz=Quiz())
    assert (accepted.depth, accepted.decided_by) == (2, "model")
    assert "In which country is Tolmin? Slovenia" in accepted.evidence


@pytest.mark.parametrize(
    ("quotes", "depth"),
    [
        (["a novel that Ida Brandt wrote"], 1),
        (["glass harbour ... IDA  BRANDT wrote, in 1931"], 1),
        ([], 0),
        ([" . "], 0),
        (["Ida Brandt was the author of it"], 0),
        (["a novel that Ida Brandt wrote", "Ida Brandt was the author of it"], 0),
    ],
)
def test_a_finding_is_certified_only_by_words_that_are_in_the_paragraph(quotes, depth):
    certain = ScriptedModel(supported=[{"supported": True, "reason": "it says so", "quotes": quotes or [""]}])
    result = verdict(claimed(), certain)
    assert result.depth == depth
    assert depth or "quoted" in result.reason


def test_all_passages_are_read_whole_in_one_order_and_what_does_not_fit_the_window_is_recorded():
    long = [Passage(id=f"p{n}", title=f"Title {n}", text=f"born {n} " * 400 + "END") for n in range(20)]
    quiz, ids = Quiz(retrieves=True, passages=long), tuple(passage.id for passage in long)
    pages = []
    for query in ("born 3", "born 7"):
        scripted_model = ScriptedModel(found=[NOT_FOUND], query=["new"])
        realized(scripted_model, quiz, attempts=tried(search(query)), sources=ids)
        pages.append(scripted_model.prompts["found"][0].split("\n</world>")[0])
    assert pages[0] == pages[1] and pages[0].count("END") == 20
    runtime = Runtime(context=Context(benchmark=quiz, chat=ScriptedChat(profile={"max_input_tokens": 20_000})))
    page = asyncio.run(load_page(0, ["born 7"], ids, quiz.task(""), runtime))
    assert page.text.startswith("Title 7: ") and len(page.text) < 15_000 * CHARACTERS_PER_TOKEN
    assert page.cut == (f"{20 - page.text.count('END')} of 20 passages",)


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("Who wrote Glass Harbour?", "the Glass Harbour", "in the question"),
        ("Where was its author born?", "Ida Brandt", "on the way"),
        ("Who wrote it?", " ".join(["word"] * 16), "16 words"),
        ("When was it written?", "Tolmin Castle", "a time"),
        ("In what year was it written?", "by Brandt", "a time"),
        ("How many people live there?", "very few", "a number"),
        ("Is it a novel?", "Slovenian", "yes or no"),
    ],
)
def test_musique_s_answer_checks(question, answer, reason):
    assert reason in short_answer_problem(question, answer, CHAIN)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who wrote Glass Harbour?", "Ida"),
        ("In which country was its author born?", "Slovenia"),
        ("When was it written?", "the middle of the summer"),
        ("When was it written?", "9 May 1931"),
        ("How many people live there?", "three thousand"),
        ("Is it a novel?", "Yes."),
        ("Is it a novel or a poem?", "verse"),
        ("Who lived there when the war began?", "Queen Ana"),
        ("What is left?", " ".join(["word"] * 15)),
    ],
)
def test_answers_of_the_right_sort_pass(question, answer):
    assert short_answer_problem(question, answer, CHAIN) == ""


def test_the_last_entity_may_equal_an_earlier_one():
    assert short_answer_problem("Where does it end?", "Tolmin", [*CHAIN, HopFinding("q", "f", "Tolmin")]) == ""


@pytest.mark.slow
def test_none_of_musique_s_own_answers_is_rejected_by_its_words():
    from certigraph.benchmarks.musique.benchmark import MuSiQue

    benchmark = MuSiQue(data_folder("musique"))
    for task in (*benchmark.tasks("dev"), *benchmark.tasks("train")):
        question = benchmark.gold(task)
        chain = [HopFinding(hop.question, hop.finding, hop.answer) for hop in question.hops]
        answer = question.answers[0]
        assert (answer_problem(answer) or short_answer_problem(question.text, answer, chain), task.id) == ("", task.id)
        assert [finding_problem(hop.answer) for hop in question.hops] == [""] * len(chain)


# SDP over multi-hop questions from end to end: chains, retrieval, escalation, replans, forced answers.


def scripted_model(**answers):
    """One that decomposes right and whose verifier agrees, unless given otherwise."""
    usual = {
        "subquestions": [SUBQUESTIONS],
        "found": FINDINGS,
        "query": ["Glass Harbour author", "Ida Brandt birthplace", "Tolmin country"],
        "supported": [True],
        "answer": ["Slovenia"],
        "consistent": [True],
    }
    return ScriptedModel(**{**usual, **answers})


def searches(state):
    return [step.action.args for step in state["history"] if step.action.kind == SEARCH]


def test_where_passages_are_searched_for_each_hop_searches_first_and_the_search_is_not_a_try():
    state = run_sdp(Quiz(retrieves=True, strict=True), scripted_model())
    assert sdp.ending(state) == GOAL
    assert [step.action.kind for step in state["history"]] == ["search", "claim"] * 3 + ["answer"]
    assert [a.verdict.looked for a in state["attempts"]] == [True, False] * 3 + [False]


def test_a_goal_that_was_not_certified_with_the_answer_is_handed_in():
    state = run_sdp(Quiz(strict=True), scripted_model(), validate=capped(depth=1))
    assert sdp.ending(state) == GOAL
    assert taken_actions(state)[-2:] == ["answer[Slovenia]", "finish[Slovenia]"]
    assert "forced" not in state["action"].args


def test_a_hop_that_finds_nothing_never_repeats_a_query_escalates_and_is_forced_to_an_answer_at_last():
    never = scripted_model(found=[NOT_FOUND], query=["q one", "q two", "q three", "q one"], guess=["Homer"])
    state = run_sdp(Quiz(retrieves=True, strict=True), never)
    queries = [args["query"] for args in searches(state)]
    assert len(set(map(str.casefold, queries))) == len(queries)
    assert queries == ["q one", "q two", "q three", SUBQUESTIONS[0], "Glass Harbour", "Homer"]
    assert sdp.ending(state) == GAVE_UP
    assert state["action"].kind == FINISH and state["action"].args["forced"] == "method"


def test_searches_in_a_row_are_tries_so_that_a_hop_ends_after_its_budget():
    state = run_sdp(
        Quiz(retrieves=True, limits=Limits(attempts=3, replans=0, steps=50, passages=2)),
        scripted_model(found=[NOT_FOUND]),
    )
    assert [a.verdict.looked for a in state["attempts"]] == [True, False, False, False]
    assert [bool(args.get("again")) for args in searches(state)] == [False, True, True, True]


def test_the_third_try_of_a_claim_that_is_rejected_leads_to_a_replan_that_keeps_the_certified_hops():
    verdicts = [True, False, False, False, False, False, False, True]
    new = ["Where was Ida Brandt from?", "In which country is #2?"]
    brain = scripted_model(
        subquestions=[SUBQUESTIONS, new], supported=verdicts, found=[FINDINGS[0], *[FINDINGS[1]] * 4, FINDINGS[2]]
    )
    state = run_sdp(Quiz(strict=True), brain)
    assert sdp.ending(state) == GOAL
    assert [p.args.get("question") for p in state["plan"]] == [SUBQUESTIONS[0], *new, None, None]
    assert [p.args.get("index") for p in state["plan"]][:3] == [1, 2, 3]
    assert "Tolmin" in brain.prompts["found"][-1].rpartition("Sub-question:")[2]


def test_a_new_tail_that_is_the_old_one_is_replaced_by_the_question_itself_and_then_given_up():
    state = run_sdp(Quiz(strict=True), scripted_model(found=[NOT_FOUND]))
    tried = list(dict.fromkeys(a.target.args["question"] for a in state["attempts"]))
    assert tried == [SUBQUESTIONS[0], QUESTION]
    assert sdp.ending(state) == GAVE_UP and state["action"].args["forced"] == "method"
    assert len(state["attempts"]) == 6


def test_scores_see_the_certified_paragraph_and_no_claim_that_was_rejected():
    wrong = finding_of("Ida Brandt", "The novel was written by Ida Brandt.", "Harbour Park")
    brain = scripted_model(found=[wrong, *FINDINGS[1:]], supported=[False, True, True, False])
    quiz = Quiz(strict=True, limits=Limits(attempts=9, replans=0, steps=4))
    state = run_sdp(quiz, brain)
    assert state["action"].args["forced"] == "steps"
    assert [passage for *_, passage in state["action"].args["chain"]] == ["p1", "p2"]
    world = quiz.open(quiz.task(""))
    for step in state["history"]:  # as a replay after a crash has it
        world.step(step.action)
    assert [claim.passage for claim in world.outcome().claims] == [HARBOUR, BRANDT]
