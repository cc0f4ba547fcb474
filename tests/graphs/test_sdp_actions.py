"""SDP where the model writes actions: chains, claims, what the validator is asked, and what certificates name."""

import re
from pathlib import Path
from typing import Any

import pytest

from certigraph.adapters.episodes import LiveEpisode
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Benchmark, Context, Decision, Environment, Limits
from certigraph.graphs import sdp
from certigraph.nodes.sdp import capped, propose, realize, validate
from certigraph.runtime.run import run as start
from certigraph.state.certified_states import certified_state
from certigraph.state.records import CHECK, Action, Observation, Scores, Task, Verdict
from certigraph.state.run import Belief, Stagnation

CHAIN = ["go to the shed", "open the box", "take the key"]
REWARDS = {**dict.fromkeys(CHAIN, 0.0), "wait": 0.0, "open the box": 0.5, "break the lamp": -0.5}


class Shed(Environment):
    """A shed with a box, a key and a lamp. Unknown actions are refused."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def reset(self) -> Observation:
        self.taken = []
        return Observation(text="You are outside.")

    def step(self, action: Action) -> Observation:
        if action.text not in REWARDS:
            return Observation(text="That is not possible.", accepted=False)
        self.taken.append(action.text)
        return Observation(text=f"Done: {action.text}.", reward=REWARDS[action.text])

    def view(self) -> str:
        return f"The lamp is lit. So far: {', '.join(self.taken) or 'nothing'}."

    def score(self) -> Scores:
        return Scores(value=float("take the key" in self.taken))


class Sheds(Benchmark):
    """One task in a shed that is opened once, so that a test can look into it."""

    name = "sheds"
    wordings = "ACTION was done N times."
    limits = Limits(attempts=3, replans=1, steps=20)

    def __init__(self) -> None:
        self.shed = Shed()

    def decide(self, condition: str, observation: Observation, view: str) -> Decision | None:
        """Decide `ACTION was done N times` by the view."""
        match = re.fullmatch(r"(.+) was done (\d) times", condition)
        if not match:
            return None
        count = view.count(match[1])
        return Decision(count >= int(match[2]), f"{match[1]}: {count}")

    def tasks(self, split: str = "") -> list[Task]:
        return [Task(benchmark=self.name, id="one", goal="The agent has the key.")]

    def open(self, task: Task) -> Environment:
        return self.shed


class ScriptedModel:
    """Answers each form with the next of its answers for it, the last one again and again; keeps what it was shown."""

    def __init__(self, conditions: list[str], actions: list[dict[str, Any]], verdicts: list[dict[str, Any]]) -> None:
        self.answers = {"conditions": [{"conditions": conditions}], "action": actions, "holds": verdicts}
        self.shown: dict[str, list[str]] = {name: [] for name in self.answers}
        self.forms: dict[str, dict[str, Any]] = {}

    def __call__(self, prompt: str, form: dict[str, Any]) -> Any:
        field = next(name for name in self.answers if name in form["properties"])
        self.shown[field].append(prompt)
        self.forms[field] = form
        answers = self.answers[field]
        return {**minimal_instance(form), **(answers.pop(0) if len(answers) > 1 else answers[0])}


def act(first: str, *then: str | dict[str, Any], brings: int = 1) -> dict[str, Any]:
    """A chain whose last action is to bring about a condition."""
    *middle, last = [{"action": one} if isinstance(one, str) else one for one in (first, *then)]
    head, *rest = [*middle, {**last, "brings": brings}]
    return {**head, "then": rest}


def verdict(holds: int = 0, **fields: Any) -> dict[str, Any]:
    return {"reason": "seen", "reachable": True, "holds": holds, **fields}


def run(
    scripted_model: ScriptedModel, window: int = 0, limits: Limits | None = None, **operators: Any
) -> tuple[dict[str, Any], Shed]:
    benchmark, chat = Sheds(), ScriptedChat(responder=scripted_model)
    context = Context(benchmark=benchmark, chat=chat, window=window, limits=limits)  # type: ignore[arg-type]
    state = sdp.build(**operators).invoke({"task": benchmark.tasks()[0]}, context=context)
    return state, benchmark.shed


def texts(steps: Any) -> list[str]:
    return [step.action.text for step in steps]


def test_a_chain_of_actions_is_one_answer_of_the_executor_and_is_judged_at_its_end():
    scripted_model = ScriptedModel(["The agent is in the shed."], [act("go to the shed", "wait", "wait")], [verdict(2)])
    state, shed = run(scripted_model)
    assert sdp.ending(state) == "goal"
    assert shed.taken == ["go to the shed", "wait", "wait"]
    assert len(scripted_model.shown["action"]) == len(scripted_model.shown["holds"]) == 1
    assert all(f"Done: {action}." in scripted_model.shown["holds"][0] for action in shed.taken)
    assert [attempt.verdict.pending for attempt in state["attempts"]] == [True, True, False]


def test_tries_are_counted_by_verdicts_and_not_by_actions():
    scripted_model = ScriptedModel(["p"], [act("wait", "wait", "wait", "wait"), act("wait")], [verdict(0), verdict(2)])
    state, shed = run(scripted_model)
    assert len(shed.taken) == 5
    assert (state["replans"], sdp.ending(state)) == (0, "goal")


def test_a_refused_action_ends_the_chain():
    scripted_model = ScriptedModel(["p"], [act("fly away", "take the key"), act("wait")], [verdict(2)])
    state, shed = run(scripted_model)
    assert texts(state["history"]) == ["fly away", "wait"]
    assert "take the key" not in shed.taken


def test_a_certificate_lets_the_chain_go_on():
    async def opened(state: Any, runtime: Any) -> dict[str, Any]:
        if state["observation"].reward:
            return {"verdict": Verdict(depth=1, decided_by="code")}
        return await validate(state, runtime)  # type: ignore[no-any-return]

    scripted_model = ScriptedModel(["The box is open."], [act(*CHAIN, brings=2)], [verdict(1)])
    state, shed = run(scripted_model, validate=opened)
    assert shed.taken == CHAIN
    assert len(scripted_model.shown["action"]) == len(scripted_model.shown["holds"]) == 1
    assert [(c.action.text, c.depth) for c in state["certificates"]] == [("open the box", 1), ("take the key", 1)]


def test_what_is_announced_nowhere_is_not_judged_and_no_try_if_something_came_of_it():
    going = [act("go to the shed", brings=0), act("open the box", brings=0), act("take the key", brings=2)]
    scripted_model = ScriptedModel(["The agent has looked around."], going, [verdict(2)])
    state, shed = run(scripted_model, limits=Limits(attempts=1, replans=0, steps=20))
    assert (sdp.ending(state), shed.taken) == ("goal", CHAIN)
    assert len(scripted_model.shown["holds"]) == 1
    assert "those from 1 on have not been judged" in scripted_model.shown["holds"][0]


def test_actions_of_which_nothing_comes_use_up_the_tries():
    scripted_model = ScriptedModel(["p"], [act("fly away")], [])
    state, shed = run(scripted_model, limits=Limits(attempts=2, replans=0, steps=20))
    assert (sdp.ending(state), shed.taken, len(state["history"])) == ("gave_up", [], 2)


def test_a_loss_of_points_ends_the_chain():
    scripted_model = ScriptedModel(["p"], [act("break the lamp", "wait"), act("open the box")], [verdict(2)])
    _, shed = run(scripted_model)
    assert shed.taken == ["break the lamp", "open the box"]
    assert "not taken" in scripted_model.shown["action"][1]
    assert "- wait" in scripted_model.shown["action"][1]


def test_a_target_that_holds_already_costs_no_action_of_the_world():
    quoted = "the lamp is  lit"
    scripted_model = ScriptedModel(
        ["The lamp is lit."], [{"action": "", "target": "holds"}], [verdict(2, evidence=quoted)]
    )
    state, shed = run(scripted_model)
    assert sdp.ending(state) == "goal"
    assert shed.taken == []
    (certificate,) = state["certificates"]
    assert certificate.action.kind == CHECK
    assert certificate.evidence == "the lamp is lit"
    assert "So far: nothing." in scripted_model.shown["holds"][0]


def test_a_claim_is_judged_together_with_what_the_actions_after_it_bring_about():
    going_on = {**act("open the box", "take the key", brings=2), "target": "holds"}
    scripted_model = ScriptedModel(["The lamp is lit.", "The box is open."], [going_on], [verdict(3, since=[0, 1, 2])])
    state, shed = run(scripted_model)
    assert (sdp.ending(state), shed.taken) == ("goal", ["open the box", "take the key"])
    assert (len(scripted_model.shown["action"]), len(scripted_model.shown["holds"])) == (1, 1)


def test_a_claim_without_actions_is_judged_at_once_and_the_prompt_says_why_it_is_not_borne_out():
    claiming = {"action": "", "target": "holds"}
    scripted_model = ScriptedModel(["The lamp is out."], [claiming, act("wait")], [verdict(0), verdict(2)])
    state, shed = run(scripted_model)
    assert (shed.taken, [step.action.kind for step in state["history"]]) == (["wait"], [CHECK, "text"])
    assert "seen" in scripted_model.shown["action"][1]


def test_a_claim_that_a_rule_denies_ends_the_chain_without_a_model():
    claiming = {**act("wait", "open the box"), "target": "holds"}
    chains = [claiming, act("wait", "wait", "take the key", brings=2)]
    scripted_model = ScriptedModel(["wait was done 3 times"], chains, [verdict(1)])
    state, shed = run(scripted_model)
    assert shed.taken == ["wait", "wait", "wait", "take the key"]
    assert "wait: 1" in scripted_model.shown["action"][1]
    assert [c.decided_by for c in state["certificates"]] == ["code", "model"]


def test_what_the_agent_notes_is_shown_to_it_later_and_not_to_the_validator():
    noting = {**act("wait"), "established": ["the key lies in the box"]}
    correcting = {**act("open the box"), "established": ["the key is taken"], "outdated": [1, 7]}
    scripted_model = ScriptedModel(["p", "q"], [noting, correcting, act("wait")], [verdict(0), verdict(0), verdict(3)])
    run(scripted_model)
    second, third = scripted_model.shown["action"][1:3]
    assert "the key lies in the box (noted after action 0)" in second
    assert "the key is taken (noted after action 1)" in third
    assert "the key lies in the box" not in third
    assert not any("the key lies" in prompt for prompt in scripted_model.shown["holds"])


def test_a_target_that_is_wrongly_held_for_met_uses_up_its_tries():
    scripted_model = ScriptedModel(["p"], [{"action": "", "target": "holds"}], [verdict(0)])
    state, shed = run(scripted_model)
    assert (sdp.ending(state), shed.taken) == ("gave_up", [])
    assert state["replans"] == 1


def test_a_target_that_the_executor_finds_out_of_reach_is_planned_again_at_once_for_its_reason():
    lost = {"thought": "It is <locked>.", "action": "", "target": "unreachable"}
    scripted_model = ScriptedModel(["p"], [lost, act("wait")], [verdict(2)])
    scripted_model.answers["conditions"].append({"conditions": ["q"]})
    state, shed = run(scripted_model)
    assert (sdp.ending(state), state["replans"], shed.taken) == ("goal", 0, ["wait"])
    assert [attempt.target.text for attempt in state["attempts"]] == ["p", "q"]
    assert state["attempts"][0].verdict.unreachable
    assert "It is <locked>." in scripted_model.shown["conditions"][1]


@pytest.mark.parametrize("planned", [["p"], []])
def test_the_reason_for_giving_up_is_in_the_state_and_in_the_message(planned: list[str], tmp_path: Path):
    scripted_model = ScriptedModel(planned, [act("wait")], [verdict(0)])
    given = {"reasoning": "The shed\nis <locked>.", "conditions": []}
    scripted_model.answers["conditions"] = [*([{"conditions": planned}] if planned else []), given]
    context = Context(chat=ScriptedChat(responder=scripted_model))
    result = start("sdp", Sheds(), "one", context=context, out=tmp_path)
    assert (result.ending, result.state["gave_up"]) == ("gave_up", "The shed is <locked>.")
    assert result.message.endswith("The shed is <locked>.")


def test_a_goal_that_the_world_reports_certifies_nothing_that_nobody_judged():
    async def solved(state: Any, runtime: Any) -> dict[str, Any]:
        return {"verdict": Verdict(depth=len(state["tail"]), skipped=(1, 2), decided_by="code")}

    state, _ = run(ScriptedModel(["p", "q", "r"], [act("wait")], []), validate=solved)
    assert sdp.ending(state) == "goal"
    passed = [([p.text for p in c.targets], bool(c.forced)) for c in state["certificates"]]
    assert passed == [(["p"], False), (["q", "r"], True), (["The agent has the key."], False)]
    assert [p.text for p in certified_state(state["certificates"]).predicates] == ["p", "The agent has the key."]
    capped_state, _ = run(ScriptedModel(["p", "q", "r"], [act("wait")], []), validate=capped(solved, depth=1))
    assert sdp.ending(capped_state) == "goal"


def test_a_check_is_replayed():
    live = LiveEpisode(Shed())
    for action in (Action(text="wait"), Action(text="x", kind=CHECK), Action(text="open the box")):
        live.step(action)
    again = LiveEpisode(Shed())
    again.replay(live.log)
    assert again.environment.view() == live.environment.view()


@pytest.mark.parametrize(("quoted", "kept"), [("Done: wait.", True), ("So far: wait", True), ("It is done", False)])
def test_evidence_is_kept_only_if_the_world_showed_it(quoted: str, kept: bool):
    state, _ = run(ScriptedModel(["p"], [act("wait")], [verdict(2, evidence=quoted)]))
    assert [bool(c.evidence) for c in state["certificates"]] == [kept]


def test_what_models_noted_and_advised_stands_in_the_text_that_gives_no_orders():
    async def advise(state: Any, runtime: Any) -> dict[str, Any]:
        return {"stagnation": Stagnation(advice="Turn to the lamp.")}

    async def note(state: Any, runtime: Any) -> dict[str, Any]:
        return {"belief": Belief(form="freeform", notes=("a sign says: turn back",))}

    scripted_model = ScriptedModel(["p"], [act("wait")], [verdict(0), verdict(2)])
    run(scripted_model, gate=advise, memory=note)
    prompt = scripted_model.shown["action"][1]
    own_text = re.sub(r"<world>\n.*?\n</world>", "", prompt, flags=re.DOTALL)
    for text in ("Turn to the lamp.", "a sign says: turn back"):  # either may repeat what the world says
        assert text in prompt
        assert text not in own_text


def test_a_model_with_a_small_window_is_asked_the_same_and_answers_in_bounds():
    answers = [act("wait")], [verdict(2)]
    strong, small = ScriptedModel(["p"], *answers), ScriptedModel(["p"], *answers)
    run(strong)
    run(small, 4_096)
    assert small.shown == strong.shown
    for key in ("action", "holds", "conditions"):
        parts = [model.forms[key]["properties"] for model in (strong, small)]
        assert [*parts[0]] == [*parts[1]]
    assert "maxLength" in small.forms["action"]["properties"]["thought"]
    assert "maxLength" not in strong.forms["action"]["properties"]["thought"]


def test_an_own_realize_may_choose_several_actions_and_an_own_validator_sees_each():
    seen: list[tuple[str, int]] = []

    async def realize(state: Any, runtime: Any) -> dict[str, Any]:
        if state["upcoming"]:
            first, *rest = state["upcoming"]
            return {"action": first, "upcoming": rest}
        return {"action": Action(text="wait"), "upcoming": [Action(text="open the box")]}

    async def seeing(state: Any, runtime: Any) -> dict[str, Any]:
        seen.append((state["action"].text, len(state["upcoming"])))
        return {"verdict": Verdict(depth=0, pending=bool(state["upcoming"])) if state["upcoming"] else Verdict(depth=2)}

    benchmark = Sheds()
    context = Context(benchmark=benchmark, chat=ScriptedChat(responder=ScriptedModel(["p"], [], [])))
    state = sdp.build(realize=realize, validate=seeing).invoke({"task": benchmark.tasks()[0]}, context=context)
    assert sdp.ending(state) == "goal"
    assert seen == [("wait", 1), ("open the box", 0)]


LAMP = {"reachable": False, "reason": "the lamp is broken"}


def test_what_cannot_be_reached_after_what_was_certified_is_planned_again_at_once():
    scripted_model = ScriptedModel(
        ["in the shed", "lamp lit"], [act("go to the shed"), act("wait", brings=2)], [verdict(1, **LAMP), verdict(2)]
    )
    scripted_model.answers["conditions"].append({"conditions": ["candle lit"]})
    state, shed = run(scripted_model)
    assert shed.taken == ["go to the shed", "wait"]
    assert (len(scripted_model.shown["action"]), len(scripted_model.shown["holds"]), state["replans"]) == (2, 2, 0)
    assert len(scripted_model.shown["conditions"]) == 2
    assert LAMP["reason"] in scripted_model.shown["conditions"][1]


def test_a_cap_of_cascades_drops_what_was_judged_beyond_it():
    scripted_model = ScriptedModel(
        ["in the shed", "box open", "lamp lit"],
        [act("wait"), act("wait", brings=2), act("wait", brings=3), act("wait", brings=4)],
        [verdict(2, **LAMP), verdict(1)],
    )
    state, _ = run(scripted_model, validate=capped(validate, depth=1))
    assert len(scripted_model.shown["conditions"]) == 1
    assert not any(attempt.verdict.unreachable for attempt in state["attempts"])


# Rules, and the actions that certificates name.


def test_what_a_rule_finds_is_certified_at_once_and_names_the_action_that_brought_it_about():
    conditions = ["wait was done 1 times", "open the box was done 1 times", "The key gleams."]
    chain = act(*CHAIN[:2], "wait", "wait", "take the key", brings=3)
    scripted_model = ScriptedModel(conditions, [chain], [verdict(2)])
    state, _ = run(scripted_model)
    assert sdp.ending(state) == "goal"
    named = [([p.text for p in c.targets], c.action.text, c.step, c.decided_by) for c in state["certificates"]]
    assert named == [
        (conditions[:2], "wait", 3, "code"),
        ([conditions[2], "The agent has the key."], "take the key", 5, "model"),
    ]
    assert len(scripted_model.shown["holds"]) == 1


def test_the_model_says_since_when_each_condition_holds():
    scripted_model = ScriptedModel(["p", "q"], [act(*CHAIN, "wait")], [verdict(3, since=[2, 1, 3])])
    state, _ = run(scripted_model)
    named = [([p.text for p in c.targets], c.action.text, c.step) for c in state["certificates"]]
    assert named == [(["p", "q"], CHAIN[1], 2), (["The agent has the key."], CHAIN[2], 3)]
    digests = [step.digest for step in state["history"]]
    assert [c.digest for c in state["certificates"]] == [digests[1], digests[2]]


@pytest.mark.parametrize("since", [[], [0, 9], [9]])
def test_a_certificate_names_the_latest_action_where_the_model_does_not_say_which(since: list[int]):
    state, _ = run(ScriptedModel(["p"], [act(*CHAIN)], [verdict(2, since=since)]))
    assert {c.step for c in state["certificates"]} == {3}


def test_an_action_is_repeated_until_a_rule_finds_its_condition_and_not_more_often_than_its_limit():
    waiting = {"action": "wait", "until": "wait was done 2 times", "at_most": 9, "then": ["open the box"]}
    in_vain = {"action": "wait", "until": "wait was done 9 times", "at_most": 3, "then": ["take the key"]}
    scripted_model = ScriptedModel(["p"], [waiting, in_vain, act("go to the shed")], [verdict(2)])
    _, shed = run(scripted_model)
    assert shed.taken == ["wait", "wait", "open the box", "wait", "wait", "wait", "go to the shed"]


def test_what_was_to_follow_a_condition_that_did_not_come_is_not_taken():
    first, second = ({"action": one, "until": "take the key was done 1 times"} for one in ("go to the shed", "wait"))
    chain = {**first, "then": [second, {"action": "open the box", "brings": 1}]}
    scripted_model = ScriptedModel(["p"], [chain, act("wait")], [verdict(2)])
    _, shed = run(scripted_model)
    assert shed.taken == ["go to the shed", "wait", "wait"]
    assert "- open the box" in scripted_model.shown["action"][1]


def test_a_place_of_a_search_is_left_out_once_what_was_sought_is_found():
    found = "go to the shed was done 1 times"
    chain = {"action": "go to the shed", "until": found, "then": [{"action": "wait", "until": found}, "open the box"]}
    scripted_model = ScriptedModel(["p"], [chain, act("take the key")], [verdict(2)])
    _, shed = run(scripted_model)
    assert shed.taken == CHAIN


@pytest.mark.parametrize("swapped", ["", "propose", "realize"])
def test_plan_and_first_actions_share_a_request_unless_one_of_the_operators_is_another(swapped: str):
    async def another(state: Any, runtime: Any) -> dict[str, Any]:
        return await original(state, runtime)  # type: ignore[no-any-return]

    original: Any = propose if swapped == "propose" else realize(ahead=20)
    scripted_model = ScriptedModel(["p"], [act("wait")], [verdict(2)])
    scripted_model.answers["conditions"] = [{"conditions": ["p"], **act(*CHAIN)}]
    _, shed = run(scripted_model, **({swapped: another} if swapped else {}))
    assert ("action" in scripted_model.forms["conditions"]["properties"]) == (not swapped)
    assert shed.taken == (["wait"] if swapped else CHAIN)
    assert ("So far: nothing." in scripted_model.shown["conditions"][0]) == (not swapped)
    assert len(scripted_model.shown["action"]) == bool(swapped)


def test_a_new_rest_of_the_plan_begins_with_actions_too():
    lost = {"action": "", "target": "unreachable"}
    scripted_model = ScriptedModel(["p"], [lost], [verdict(2)])
    scripted_model.answers["conditions"].append({"conditions": ["q"], **act(*CHAIN)})
    state, shed = run(scripted_model)
    assert (sdp.ending(state), shed.taken, len(scripted_model.shown["action"])) == ("goal", CHAIN, 1)


@pytest.mark.parametrize("ahead", [0, 2])
def test_the_length_of_chains_is_an_argument(ahead: int):
    scripted_model = ScriptedModel(["p"], [{**act("wait"), "brings": 1}], [verdict(2)])
    run(scripted_model, realize=realize(ahead=ahead))
    assert scripted_model.forms["action"]["properties"].get("then", {}).get("maxItems", 0) == ahead
    for form in ("action", "conditions"):
        assert ("until" in scripted_model.forms[form]["properties"]) == bool(ahead), "one action is not repeated"


def test_after_the_end_of_the_world_nobody_is_asked():
    class Trap(Shed):
        def step(self, action: Action) -> Observation:
            return super().step(action).model_copy(update={"done": action.text == "open the box"})

    scripted_model = ScriptedModel(["wait was done 1 times", "q"], [act("wait", "open the box", "wait")], [verdict(0)])
    benchmark = Sheds()
    benchmark.shed = Trap()
    context = Context(benchmark=benchmark, chat=ScriptedChat(responder=scripted_model))
    state = sdp.build().invoke({"task": benchmark.tasks()[0]}, context=context)
    assert (sdp.ending(state), len(state["certificates"])) == ("world_ended", 1)
    assert [len(shown) for shown in scripted_model.shown.values()] == [1, 1, 0]


def test_the_papers_loop_judges_each_action():
    scripted_model = ScriptedModel(["p", "q"], [act(one) for one in CHAIN], [verdict(0), verdict(1), verdict(2)])
    state, shed = run(scripted_model, **sdp.PAPER)
    assert (sdp.ending(state), shed.taken) == ("goal", CHAIN)
    assert [len(shown) for shown in scripted_model.shown.values()] == [1, 3, 3]
    assert not {"then", "target"} & {*scripted_model.forms["action"]["properties"]}
    assert [(c.step, c.depth) for c in state["certificates"]] == [(2, 1), (3, 2)]
