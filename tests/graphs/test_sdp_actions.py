"""SDP where the model writes actions: several at once, none because the target holds, and what the validator sees."""

import re
from pathlib import Path
from typing import Any

import pytest

from certigraph.adapters.episodes import LiveEpisode
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits
from certigraph.graphs import sdp
from certigraph.nodes.sdp import capped, validate
from certigraph.nodes.slots import keep_upcoming
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
    limits = Limits(attempts=3, replans=1, steps=20)

    def __init__(self) -> None:
        self.shed = Shed()

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


def act(first: str, *then: str) -> dict[str, Any]:
    return {"action": first, "then": [*then]}


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
    scripted_model = ScriptedModel(["p"], [act("fly away", "take the key"), act("wait")], [verdict(0), verdict(2)])
    state, shed = run(scripted_model)
    assert texts(state["history"]) == ["fly away", "wait"]
    assert "take the key" not in shed.taken


def test_a_certificate_lets_the_chain_go_on():
    async def opened(state: Any, runtime: Any) -> dict[str, Any]:
        if state["observation"].reward:
            return {"verdict": Verdict(depth=1, decided_by="code")}
        return await validate(state, runtime)  # type: ignore[no-any-return]

    scripted_model = ScriptedModel(["The box is open."], [act(*CHAIN)], [verdict(1)])
    state, shed = run(scripted_model, validate=opened)
    assert shed.taken == CHAIN
    assert len(scripted_model.shown["action"]) == len(scripted_model.shown["holds"]) == 1
    assert [(c.action.text, c.depth) for c in state["certificates"]] == [("open the box", 1), ("take the key", 1)]


@pytest.mark.parametrize(("options", "kept"), [(["seed", "seed"], ("wait",)), (["seed", "pot"], ()), ([], ())])
def test_a_question_with_one_answer_does_not_end_a_chain(options: list[str], kept: tuple[str, ...]):
    state = {"upcoming": (Action(text="wait"),)}
    observation = Observation(text="Which?", accepted=False, data={"options": options})
    after = {**state, **keep_upcoming(state, observation)}
    assert tuple(action.text for action in after["upcoming"]) == kept


def test_a_loss_of_points_ends_the_chain():
    scripted_model = ScriptedModel(
        ["p"], [act("break the lamp", "wait"), act("open the box")], [verdict(0), verdict(2)]
    )
    _, shed = run(scripted_model)
    assert shed.taken == ["break the lamp", "open the box"]


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


def test_a_target_that_holds_already_costs_no_call_if_something_is_to_be_done_after_it():
    going_on = {"action": "open the box", "target": "holds", "then": ["take the key"]}
    scripted_model = ScriptedModel(["The lamp is lit.", "The box is open."], [going_on], [verdict(3)])
    state, shed = run(scripted_model)
    assert (sdp.ending(state), shed.taken) == ("goal", ["open the box", "take the key"])
    assert len(scripted_model.shown["action"]) == len(scripted_model.shown["holds"]) == 1


def test_what_did_nothing_in_the_world_is_not_numbered_among_its_actions():
    nothing = {"action": "", "target": "holds"}
    scripted_model = ScriptedModel(
        ["p", "q"], [act("wait"), nothing, act("open the box")], [verdict(0), verdict(1, established=["F"]), verdict(2)]
    )
    state, _ = run(scripted_model)
    assert [turn.action for turn in state["trace"]] == ["wait", "open the box"]
    assert "Done: wait." in scripted_model.shown["holds"][1], "the action before a check is what is judged"
    assert "F (noted after action 1)" in scripted_model.shown["action"][2]


def test_a_target_that_is_wrongly_held_for_met_uses_up_its_tries():
    scripted_model = ScriptedModel(["p"], [{"action": "", "target": "holds"}], [verdict(0)])
    state, shed = run(scripted_model)
    assert (sdp.ending(state), shed.taken) == ("gave_up", [])
    assert state["replans"] == 1


def test_a_target_that_the_executor_and_the_checker_find_out_of_reach_is_planned_again_at_once():
    lost = {"action": "", "target": "unreachable"}
    scripted_model = ScriptedModel(["p"], [lost, act("wait")], [verdict(0, reachable=False), verdict(2)])
    scripted_model.answers["conditions"].append({"conditions": ["q"]})
    state, shed = run(scripted_model)
    assert (sdp.ending(state), state["replans"], shed.taken) == ("goal", 0, ["wait"])
    assert [attempt.target.text for attempt in state["attempts"]] == ["p", "q"]
    assert state["attempts"][0].verdict.unreachable


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
        return {"verdict": Verdict(depth=len(state["tail"]), skipped=2, decided_by="code")}

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


def test_facts_are_shown_until_a_verdict_calls_them_outdated():
    first = verdict(0, established=["the key lies in the box"])
    second = verdict(0, established=["the key is taken"], outdated=[1, 7])
    scripted_model = ScriptedModel(["p"], [act("wait")], [first, second, verdict(2)])
    run(scripted_model)
    assert ["the key lies in the box" in prompt for prompt in scripted_model.shown["action"]] == [False, True, False]
    assert "the key is taken" in scripted_model.shown["action"][2]


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
        ["in the shed", "lamp lit"], [act("go to the shed"), act("wait")], [verdict(1, **LAMP), verdict(2)]
    )
    scripted_model.answers["conditions"].append({"conditions": ["candle lit"]})
    state, shed = run(scripted_model)
    assert shed.taken == ["go to the shed", "wait"]
    assert (len(scripted_model.shown["action"]), len(scripted_model.shown["holds"]), state["replans"]) == (2, 2, 0)
    assert len(scripted_model.shown["conditions"]) == 2
    assert LAMP["reason"] in scripted_model.shown["conditions"][1]


def test_a_cap_of_cascades_drops_what_was_judged_beyond_it():
    scripted_model = ScriptedModel(
        ["in the shed", "box open", "lamp lit"], [act("wait")], [verdict(2, **LAMP), verdict(1)]
    )
    state, _ = run(scripted_model, validate=capped(validate, depth=1))
    assert len(scripted_model.shown["conditions"]) == 1
    assert not any(attempt.verdict.unreachable for attempt in state["attempts"])
