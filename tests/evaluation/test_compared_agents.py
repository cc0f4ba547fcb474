"""Agents of LangChain's `create_agent`, with and without middleware, compared with certigraph's on the user's cases."""

from pathlib import Path

import pytest
from helpers.worlds.compared_desk import DONE, TOOLS, cases, checked

import certigraph
from certigraph.evaluation.result_tables import print_comparison

pytestmark = pytest.mark.slow  # whole comparisons

SHOP = "helpers.worlds.compared_desk"
METHODS = [f"bare={SHOP}:bare", f"checked={SHOP}:checked", "react", "sdp"]
SWAPS = ["react:check=check_calls", "react:audit=judge_answer", "sdp:check=check_calls"]
SCRIPT = certigraph.Context(model="scripted:expert")


@pytest.fixture(autouse=True)
def _scripts_allow_calls() -> None:
    """Take the place of the fixture by which scripts that do not know the check allow every call."""


def test_agents_of_all_makers_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = certigraph.compare(METHODS, cases(), SWAPS, context=SCRIPT, out=tmp_path / "compared")
    shown = {one.method: (round(one.score, 1), one.calls, dict(one.endings)) for one in found.comparison.methods}
    assert shown == {
        "bare": (33.3, 8, {"finished": 3}),
        "checked": (100.0, 19, {"goal": 3}),
        "react": (100.0, 19, {"goal": 3}),
        "sdp": (100.0, 22, {"goal": 3}),
    }
    precision = {one.method: (one.goals.confirmed, one.goals.n) for one in found.comparison.methods}
    assert precision == {"bare": (0, 0), "checked": (3, 3), "react": (3, 3), "sdp": (3, 3)}
    print_comparison(found.comparison, ())
    assert "bare ended: 3 finished" in capsys.readouterr().out


def test_the_cases_check_gets_the_calls_and_the_answer(tmp_path: Path):
    seen = list[certigraph.Episode]()

    def note(episode: certigraph.Episode) -> bool:
        seen.append(episode)
        return True

    tools = certigraph.Tools(TOOLS, ["Refund order 18."], check=note, reset=lambda case: DONE.clear())
    DONE.append("refund 1 1.0")  # what an earlier run has left
    result = certigraph.run(checked(), tools, out=tmp_path)
    [episode] = seen
    made = [(call.name, call.args.get("amount")) for call in episode.calls]
    assert made == [("look_up", None), ("refund", 64.0)], "the call that the check denied was not made"
    assert (episode.answer, DONE) == ("Order 18 is refunded.", ["refund 18 64.0"])
    assert result.scores and result.scores.value == 1


def test_an_ablation_of_a_bare_agent_is_refused_since_it_has_no_slots(tmp_path: Path):
    with pytest.raises(certigraph.UnknownName, match="no operator slot"):
        certigraph.ablate(f"{SHOP}:bare", cases(), ["check=check_calls"], context=SCRIPT, out=tmp_path / "ablated")
