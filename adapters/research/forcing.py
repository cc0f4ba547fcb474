"""The policies that end a research with something rather than nothing. What they let through is certified by nobody."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.multihop.rejections import no_answer
from certigraph.adapters.prompting import quoted, shown
from certigraph.adapters.research.judging import weakness
from certigraph.adapters.research.plans import FORCE_ACCEPT, FORCE_PASS
from certigraph.adapters.research.tooling import concluded
from certigraph.state.gathering import AnswerView
from certigraph.state.records import Observation, Verdict
from certigraph.state.researching import handed_in


def let_pass(verdict: Verdict, seen: Observation, after: int) -> Verdict:
    """Let a refused finding pass that says something and rests on a source, once `after` others were refused.

    The refusals are those that the action counts: Validate sees no attempts.
    """
    rejected, finding = seen.data.get("rejected"), verdict.finding
    if verdict.depth or finding is None or not isinstance(rejected, int) or rejected < after:
        return verdict
    if not finding.sources or not finding.text or no_answer(finding.text):
        return verdict
    return verdict.model_copy(update={"depth": 1, "forced": FORCE_PASS})


async def force_accept(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Hand in the best answer at hand, whatever it is worth: the closest one, else what was found last.

    The slot marks it as forced.
    """
    room, known = limits_of(state["task"], runtime).context // 3, state["certified"].known
    done = quoted(shown(state["turns"], characters=room // 6, within=room))
    text = await concluded(state, done, runtime, closest=True)
    if weakness(text) and known:
        text = known[-1].finding.text
    return {"action": handed_in(text, known, policy=FORCE_ACCEPT)}
