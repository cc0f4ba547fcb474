"""World models: what candidates for the next action would lead to (StateFactory, appendix C.6.3).

`rehearsed` asks a copy of the simulator: it is always right, costs no call, and is privileged, for no agent in a real
world has it. `predicted` asks the model.
"""

from functools import lru_cache
from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import numbered, prompt, quoted
from certigraph.adapters.rehearsing import rehearse
from certigraph.nodes.situation import told
from certigraph.state.appraising import Foreseen, LookaheadView


async def rehearsed(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
    """What a copy of the world answers to each candidate; the world itself is not touched.

    Raises:
        Fault: ("environment") the world cannot be copied; the message says what to do.
    """
    outcomes = []
    for action in state["candidates"]:
        found = (await rehearse([*state["path"], action], state["task"], runtime)).observation
        outcomes.append(
            Foreseen(
                action=action,
                observation=found.text,
                accepted=found.accepted,
                done=found.done,
                solved=found.solved,
            )
        )
    return {"foreseen": tuple(outcomes)}


async def predicted(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
    """What the model expects the world to answer, one question for all candidates."""
    actions = state["candidates"]
    if not actions:
        return {"foreseen": ()}
    question = prompt(runtime, told(state, PREDICT.format(actions=quoted(numbered(actions)))))
    answer = await ask(question, _predictions(len(actions)), role="executor", runtime=runtime)
    texts: list[str] = answer.outcomes  # type: ignore[attr-defined]
    return {"foreseen": tuple(Foreseen(action=a, observation=t) for a, t in zip(actions, texts, strict=True))}


@lru_cache(maxsize=64)
def _predictions(count: int) -> type[BaseModel]:
    # A world's whole view is the model's to tell again only where the world's own answers are of that length.
    text = Field(min_length=count, max_length=count)
    kind: Any = list[str]
    return create_model("Predictions", outcomes=(kind, text))


PREDICT = """\
Actions that are considered:
{actions}
For each of them alone, taken next from here, foretell what the world would answer, in its own wording and in one or two
sentences: what is different afterwards, or that nothing is. One answer for each action, in their order."""
