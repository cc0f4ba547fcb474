"""The belief state: what extraction adds, what it may see, how large it gets, and what the agent sees of it."""

import asyncio
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.worlds.library_world import GOAL, LibraryBenchmark, ScriptedModel, new_search, run_graph, search_move
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.runtime import Runtime

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.graphs import ircot, iter_retgen, memgpt, pbai, react, step
from certigraph.nodes.belief_checks import filtered, grounded, is_anchored
from certigraph.nodes.beliefs import freeform, structured
from certigraph.state.endings import UnknownName
from certigraph.state.records import Observation
from certigraph.state.run import Belief, BelievedFact

SEEN = Observation(text="Osk: Lake Osk is fed by the Ren.\nRen: Ada Lov mapped the Ren.", sources=("Osk", "Ren"))


def found(*facts: str, resolved: Any = (), questions: Any = ()) -> dict[str, Any]:
    entries = [{"fact": fact, "source": "Ren"} for fact in facts]
    return {"facts": entries, "resolved": list(resolved), "questions": list(questions)}


def extracted(
    memory: Any, scripted_model: ScriptedModel, before: Belief | None = None, seen: Observation = SEEN
) -> Belief:
    world = LibraryBenchmark()
    view = {"task": world.task("only"), "belief": before or Belief(), "observation": seen}
    runtime = Runtime(context=Context(benchmark=world, chat=ScriptedChat(responder=scripted_model)))
    return asyncio.run(memory(view, runtime))["belief"]


def test_notes_are_the_lines_of_prose_that_say_something_new():
    scripted_model = ScriptedModel(
        text="Notes:\n- Ada mapped the Ren (Ren).\n2) when: unknown\n\nNothing new.\n- old note"
    )
    after = extracted(freeform(), scripted_model, Belief(form="freeform", notes=("old note",)))
    assert after.notes == ("old note", "Ada mapped the Ren (Ren).", "when: unknown")


@pytest.mark.parametrize(
    ("reply", "notes"),
    [
        ("<scratchpad>\n- It says a.\n</scratchpad>\nNotes:\n- Ada mapped the Ren (Ren)", ["Ada mapped the Ren (Ren)"]),
        ("<scratchpad>\n- It says a.\nNotes:\n- Ada mapped the Ren (Ren)", ["Ada mapped the Ren (Ren)"]),
        ('Memories to keep:\n- "Ada mapped the Ren." (Ren)', ['"Ada mapped the Ren." (Ren)']),
        ('{"notes": ["Ada mapped the Ren", "Nothing new."], "memories": []}', ["Ada mapped the Ren"]),
        ('```json\n[{"fact": "Ada mapped the Ren"}]\n```', ["Ada mapped the Ren"]),
        ('"Ada mapped the Ren",\n}\n', ["Ada mapped the Ren"]),
        ("No one knows the new king", ["No one knows the new king"]),
    ],
)
def test_notes_are_texts_without_reasoning_braces_and_wrapping_quotes(reply: str, notes: list[str]):
    assert list(extracted(freeform(), ScriptedModel(text=reply)).notes) == notes


@pytest.mark.parametrize("window", [0, 4_096])
def test_long_notes_are_kept_whole(window: int):
    long = "Ada mapped " + "x" * 1_000
    world, view = LibraryBenchmark(), {"belief": Belief(), "observation": SEEN}
    context = Context(benchmark=world, chat=ScriptedChat(responder=ScriptedModel(text=long)), window=window)
    memory: Any = freeform()
    belief = asyncio.run(memory({"task": world.task("only"), **view}, Runtime(context=context)))["belief"]
    assert belief.notes == (long,)


def test_a_fact_that_says_nothing_is_none():
    after = extracted(structured(), ScriptedModel(facts=found("Nothing relevant.", "Ada mapped it", "...")))
    assert [fact.text for fact in after.facts] == ["Ada mapped it"]


NOTHING = (
    "Nothing new.",
    "",
    "  - nothing relevant",
    "*Nothing new*",
    "The passages add nothing new.",
    "There are no relevant facts.",
    "None.",
    "{\n}",
)


@pytest.mark.parametrize("reply", NOTHING)
def test_nothing_new_adds_nothing(reply: str):
    before = Belief(form="freeform", notes=("old note",))
    assert extracted(freeform(), ScriptedModel(text=reply), before) == before


@pytest.mark.parametrize("memory", [structured, freeform])
def test_what_was_believed_under_another_memory_is_wiped(memory: Any):
    before = Belief(notes=("core memory",), facts=(BelievedFact(text="summary"),), window=9)
    scripted_model = ScriptedModel()
    after = extracted(memory(), scripted_model, before)
    assert (after.items, after.window) == (0, 1)
    assert "core memory" not in scripted_model.requests[0][1]


@pytest.mark.parametrize("memory", ["structured", "freeform"])
def test_the_extractor_sees_belief_observation_and_question_alone(memory: str):
    poisoned = ScriptedModel(
        tool=lambda prompt, times: {**new_search(prompt, times), "thought": "POISON"}, facts=found("a fact")
    )
    world = LibraryBenchmark(lambda query: (f"title {len(query)}",), rounds=4)
    state = run_graph(pbai.build(memory=memory), poisoned, world)
    assert len(state["turns"]) == 4 + 1  # the forced answer is a turn as well
    prompts = [prompt for fields, prompt in poisoned.requests if "facts" in fields or fields == {"text"}]
    assert len(prompts) == 4
    assert all(GOAL in prompt and "about title" in prompt for prompt in prompts)
    hidden = ("POISON", "q0 r0", "> search[", "VIEW")
    assert not [prompt for prompt in prompts for word in hidden if word in prompt]


@pytest.mark.slow
@settings(max_examples=15)
@given(st.data(), st.integers(1, 8), st.integers(0, 6))
def test_no_belief_is_larger_than_its_trigger_whatever_the_model_writes(data: Any, target: int, allowance: int):
    trigger = target + allowance
    texts = st.lists(st.text("xyz", min_size=1, max_size=4), max_size=9)
    memory, belief = structured(target=target, trigger=trigger), Belief()
    for _ in range(4):
        facts, questions = data.draw(texts), data.draw(texts)
        before = belief.reorganised
        belief = extracted(memory, ScriptedModel(facts=found(*facts, questions=questions)), belief)
        assert belief.items <= (target if belief.reorganised > before else trigger)


@settings(max_examples=15)
@given(st.lists(st.text("xyz \n-", max_size=30), min_size=4, max_size=4), st.integers(1, 6))
def test_no_notes_are_more_than_their_trigger(replies: list[str], target: int):
    belief = Belief()
    for text in replies:
        belief = extracted(freeform(target=target, trigger=target + 2), ScriptedModel(text=text), belief)
        assert belief.items <= target + 2


@pytest.mark.parametrize("memory", [structured, freeform])
def test_a_reorganisation_that_comes_back_empty_keeps_the_latest(memory: Any):
    form = memory.__name__
    old = [f"fact {n}" for n in range(10)]
    before = Belief(form=form, **({"notes": tuple(old)} if form == "freeform" else {}))
    if form == "structured":
        before = before.model_copy(update={"facts": tuple(BelievedFact(text=text) for text in old)})
    once = ScriptedModel(
        resolved=found("the latest"),
        facts={"facts": [], "questions": []},
        text=lambda prompt, times: "" if times else "the latest",
    )
    after = extracted(memory(), once, before)
    texts = [fact.text for fact in after.facts] + list(after.notes)
    assert texts == ["fact 5", "fact 6", "fact 7", "fact 8", "fact 9", "the latest"]
    assert after.reorganised == 1
    assert len(once.requests) == 2


def test_what_a_belief_holds_is_one_line_each_and_no_empty_one():
    facts = found(" two\n lines ", " ", questions=["  "])
    after = extracted(structured(target=1, trigger=1), ScriptedModel(facts=facts))
    assert after.text == "Facts:\n- two lines (Ren)"
    curated = {"facts": [{"fact": "joined\n fact", "source": "a\nb"}, {"fact": " ", "source": ""}], "questions": [" "]}
    scripted_model = ScriptedModel(resolved=found("one", "two"), facts=curated)
    assert extracted(structured(target=1, trigger=1), scripted_model).text == "Facts:\n- joined fact (a b)"


def test_a_reorganisation_orders_and_joins_and_is_cut_to_the_target():
    before = Belief(form="structured", facts=tuple(BelievedFact(text=f"fact {n}") for n in range(10)), questions=("q",))
    curated = {
        "facts": [{"fact": f"joined {n}", "source": "s"} for n in range(9)],
        "questions": ["q1", "q2", "q3"],
    }
    scripted_model = ScriptedModel(resolved=found(), facts=curated)
    after = extracted(structured(), scripted_model, before)
    assert [fact.text for fact in after.facts] == ["joined 0", "joined 1", "joined 2", "joined 3"]
    assert after.questions == ("q1", "q2")


@pytest.mark.parametrize("wrong", [{"target": 0}, {"target": 11}, {"window": -1}, {"searches": -1}])
def test_sizes_that_contradict_each_other_are_refused(wrong: dict[str, int]):
    with pytest.raises(UnknownName, match="target"):
        structured(**wrong)


def prompt_sizes(graph: Any, field: str, **changes: Any) -> list[int]:
    """Characters of the agent's prompts over thirty productive rounds, whose queries are all of one length."""
    scripted_model = ScriptedModel(
        tool=lambda prompt, times: search_move(f"q{times:02} r{times:02}"),
        facts=lambda prompt, times: found(*(f"fact {times} {n} of the river" for n in range(3)), questions=["who?"]),
        text=lambda prompt, times: f"- note {times} one\n- note {times} two",
        generation=lambda prompt, times: {"generation": f"generation {times}"},
        answer={"answer": "Ada"},
    )
    world = LibraryBenchmark(rounds=30, context=200_000)
    state = run_graph(graph, scripted_model, world)
    assert len(state["rounds"]) == 30
    return list(map(len, scripted_model.prompts(field)))


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["structured", "freeform", "lobotomized"])
def test_prompts_stay_flat_over_thirty_rounds_with_a_belief(memory: str):
    sizes = prompt_sizes(react.build(memory=memory), "tool")
    assert max(sizes[10:]) <= 1.05 * max(sizes[3:10])


@pytest.mark.slow
def test_iter_retgen_never_sees_more_than_its_latest_passages():
    sizes = prompt_sizes(iter_retgen.build(), "generation")
    assert max(sizes[1:]) - min(sizes[1:]) < 20  # the first generation follows no other


@pytest.mark.parametrize(("window", "seen"), [(0, 0), (1, 1), (3, 3)])
def test_the_window_says_how_many_turns_stay_visible(window: int, seen: int):
    scripted_model = ScriptedModel(tool=new_search)
    run_graph(pbai.build(memory=structured(window=window)), scripted_model, LibraryBenchmark(rounds=6))
    assert scripted_model.prompts("tool")[-1].count("> search[") == seen


def test_the_belief_and_its_first_question_reach_the_agent_and_the_answer():
    scripted_model = ScriptedModel(
        tool=new_search, facts=found("Ada mapped the Ren", questions=["when was it mapped?", "why?"])
    )
    run_graph(pbai.build(), scripted_model, LibraryBenchmark(rounds=3))
    first, second, *_ = scripted_model.prompts("tool")
    assert "Ada mapped the Ren" not in first
    assert "to be settled next: when was it mapped?" in second
    assert "Ada mapped the Ren" in scripted_model.prompts("answer")[0]


@pytest.mark.parametrize("memory", ["lobotomized", "structured", "freeform"])
@pytest.mark.parametrize("window", [0, 4_096])
def test_memory_takes_the_place_of_what_memgpt_keeps_itself(memory: str, window: int):
    scripted_model = ScriptedModel(tool=new_search)
    state = run_graph(memgpt.build(memory=memory), scripted_model, LibraryBenchmark(rounds=4), window=window)
    assert not any("core_memory" in prompt for prompt in scripted_model.prompts("tool"))
    assert (state["belief"].notes, state["belief"].window) == ((), 1)


def test_a_fact_about_someone_else_or_out_of_thin_air_is_not_taken_up():
    aligned = lambda prompt, times: {"reason": "", "aligned": times == 0}  # noqa: E731  # the first, not Bob
    seen = Observation(text="Ren: Ada Lov mapped the Ren in 1843, Bob Ray the Tor.", sources=("Ren",))
    scripted_model = ScriptedModel(
        facts=found("It was Ada Lov", "It was Bob Ray", "It was Carl", "It was in 1844"), aligned=aligned
    )
    after = extracted(grounded("structured"), scripted_model, seen=seen)
    assert [fact.text for fact in after.facts] == ["It was Ada Lov"]
    assert len(scripted_model.prompts("aligned")) == 2  # what no source names costs no call


def test_notes_are_grounded_too_and_old_ones_are_not_requested_again():
    scripted_model = ScriptedModel(text="It was Ada Lov\nIt was Carl", aligned={"reason": "", "aligned": True})
    before = Belief(form="freeform", notes=("It was the old note",))
    after = extracted(grounded(freeform()), scripted_model, before)
    assert after.notes == ("It was the old note", "It was Ada Lov")
    assert len(scripted_model.prompts("aligned")) == 1


@pytest.mark.parametrize(
    ("text", "stands"),
    [("Ada mapped it", True), ("it was Ada", True), ("it was Eve", False), ("in 1843", True), ("in 1", False)],
)
def test_names_and_numbers_must_stand_somewhere(text: str, stands: bool):
    assert is_anchored(text, "Ada and the Ren, 1843") is stands


def test_only_the_lines_that_are_kept_reach_the_extractor():
    scripted_model = ScriptedModel(keep={"keep": [2, 7]}, facts=found("a fact"))
    after = extracted(filtered("structured"), scripted_model)
    assert "Ada Lov mapped" in scripted_model.prompts("facts")[0]
    assert "fed by" not in scripted_model.prompts("facts")[0]
    assert after.facts[0].text == "a fact"
    nothing = ScriptedModel(keep={"keep": []})
    assert extracted(filtered("structured"), nothing) == Belief(form="structured", window=1)
    assert nothing.prompts("facts") == []


def test_a_memory_works_inside_step():
    scripted_model = ScriptedModel(facts=found("FOUND"))
    context = Context(
        benchmark=BlocksWorld(), chat=ScriptedChat(responder=scripted_model), limits=Limits(steps=4, trials=1)
    )
    task = {"task": {"benchmark": "blocksworld", "id": "4-0"}}
    state = step.build(extract="structured").invoke(task, context=context)
    assert [fact.text for fact in state["belief"].facts] == ["FOUND"]
    thinking = scripted_model.prompts("choice")
    assert ["FOUND" in prompt for prompt in thinking] == [False, True, True, True]


def seeing(memory: Any, *, rounds: int = 4, finds: Any = None, graph: Any = pbai) -> list[str]:
    """The acting agent's prompts; it asks for q0, q1, ..., and each thought is POISON."""
    scripted_model = ScriptedModel(
        tool=lambda prompt, times: {**new_search(prompt, times), "thought": f"POISON{times}"},
        sentence=lambda prompt, times: {"sentence": f"q{times} r{times}"},
        facts=found("a fact"),
        text="a note",
    )
    run_graph(
        graph.build(memory=memory),
        scripted_model,
        LibraryBenchmark(finds or (lambda query: ("all", query)), rounds=rounds),
    )
    return scripted_model.prompts("sentence" if graph is ircot else "tool")


@pytest.mark.parametrize("graph", first_fast([pbai, react, memgpt, ircot], 2))
@pytest.mark.parametrize("memory", ["structured", "freeform"])
def test_an_agent_sees_the_words_of_the_searches_that_its_belief_replaced(graph: Any, memory: str):
    prompt = seeing(memory, graph=graph)[-1]
    assert "q0 r0" in prompt
    assert "about q0 r0" not in prompt  # only the title of the passage is left
    assert "POISON0" not in prompt


@pytest.mark.parametrize("memory", ["structured", "freeform"])
def test_a_search_that_found_nothing_is_distinguished_from_one_that_did(memory: str):
    """Of two earlier searches, one found two passages, and one found the first of them again."""
    prompt = seeing(memory, finds=lambda query: ("all",) if query.startswith("q1") else ("all", f"only {query}"))[3]
    earlier = [text for text in prompt.splitlines() if text.startswith("- search[")]
    assert [("all" in text, "only" in text) for text in earlier] == [(True, True), (False, False)]


@pytest.mark.parametrize("memory", ["native", "lobotomized"])
def test_other_memories_add_no_list_of_searches(memory: str):
    for number, prompt in enumerate(seeing(memory)):
        assert prompt.count("search[q") == (number if memory == "native" else min(number, 1))


@pytest.mark.parametrize(("searches", "seen"), [(0, 0), (2, 2), (9, 5)])
def test_the_number_of_earlier_searches_that_are_shown_is_an_option(searches: int, seen: int):
    prompts = seeing(structured(searches=searches), rounds=7)
    assert prompts[-1].count("search[q") == seen + 1
    assert ("search[q4" in prompts[-1]) == (searches > 0)  # the latest ones


def test_a_refused_action_is_remembered_with_the_worlds_words():
    prompt = seeing("structured", finds=lambda query: () if query.startswith("q0") else ("all",))[2]
    assert prompt.count("Nothing for search[q0 r0].") == 1


def test_open_questions_are_resolved_by_number_or_by_their_words():
    before = Belief(form="structured", questions=("who mapped it?", "when did it freeze?", "which river is it?"))
    scripted_model = ScriptedModel(facts=found(resolved=["2.", "which river it is"]))
    assert extracted(structured(), scripted_model, before).questions == ("who mapped it?",)
    for number, question in enumerate(before.questions, 1):
        assert f"{number}. {question}" in scripted_model.requests[0][1]


@pytest.mark.parametrize("resolved", ["4", "0", "", "none", "1999"])
def test_a_number_of_no_open_question_resolves_none(resolved: str):
    before = Belief(form="structured", questions=("who mapped it?", "when did it freeze in 1999?"))
    assert (
        extracted(structured(), ScriptedModel(facts=found(resolved=[resolved])), before).questions == before.questions
    )
