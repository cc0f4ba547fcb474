"""Realize (SDP Eq. 2) for research: which searches and pages a step takes, and what answer the findings give."""

import json
from collections.abc import Sequence
from typing import cast

from langgraph.runtime import Runtime
from pydantic import JsonValue

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted, unquoted
from certigraph.adapters.research import prompts
from certigraph.adapters.research.forms import MOST_PAGES, MOST_QUERIES, Answers, Tools
from certigraph.adapters.research.planning import chosen_pages, chosen_queries
from certigraph.adapters.research.plans import GOAL, failures, goal_of, results, told
from certigraph.state.gathering import AnswerView
from certigraph.state.json_text import json_value
from certigraph.state.records import Action
from certigraph.state.researching import handed_in, noted, research, texts
from certigraph.state.sdp import RealizeView
from certigraph.state.searching import ANSWER

REJECTIONS = 2
"""Refusals of a step's findings after which the second source of evidence is asked too (SDP paper, appendix A.4)."""

WARMER = 0.3
"""Temperature at which an answer is asked for again (appendix A.4)."""


async def step_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """What a step takes: what Replan found for it first, else what the model chooses."""
    rejected, args = len(state["attempts"]), state["target"].args
    queries, urls = texts(args.get("queries")), texts(args.get("urls"))
    if rejected or not (queries or urls):
        queries, urls = await _chosen(state, runtime)
    return research(
        goal_of(state["target"]),
        queries,
        urls,
        state["certified"].known,
        rejected=rejected,
        elsewhere=rejected >= REJECTIONS,
    )


async def closing_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """An answer for the predicate `answer`; for the goal, where it was not certified with it, that answer handed in.

    Asked for again, the model is warmer and told to settle for the closest matches.
    """
    known = state["certified"].known
    certified = [str(a.args["answer"]) for a in state["certified"].actions if a.kind == ANSWER]
    final, again = state["target"].kind == GOAL, bool(state["attempts"])
    if final and certified:
        return handed_in(certified[-1], known)
    text = await concluded(state, failures(state["attempts"]), runtime, closest=again)
    return handed_in(text, known) if final else noted(text, known)


async def concluded(state: RealizeView | AnswerView, failed: str, runtime: Runtime[Context], *, closest: bool) -> str:
    """The answer that what was found gives; with `closest`, by a warmer model, at least the closest one."""
    room = limits_of(state["task"], runtime).context // 3
    instruction = prompts.CONCLUDE.format(
        task=state["task"].goal,
        known=told(state["certified"].known, room),
        view=results(state["evidence"], room),
        failed=failed,
        notes=_notes(state),
    )
    question = prompt(runtime, instruction + (prompts.CLOSEST if closest else ""))
    temperature = WARMER if closest else None
    said = await ask(question, Answers, role="executor", runtime=runtime, temperature=temperature)
    return as_text(said.answers)


def as_text(answers: Sequence[str]) -> str:
    """An answer as it is handed in: one text as it is, several as a JSON list, JSON objects as a list of objects."""
    texts = [text for answer in answers if (text := unquoted(answer))]
    objects = [_object(text) for text in texts]
    if texts and all(one is not None for one in objects):
        return json.dumps(objects, ensure_ascii=False)
    return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False) if texts else ""


def _object(text: str) -> JsonValue:
    """The JSON object that a text is; None where it is none."""
    try:
        value: JsonValue = json_value(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


async def _chosen(state: RealizeView, runtime: Runtime[Context]) -> tuple[list[str], list[str]]:
    room = limits_of(state["task"], runtime).context // 4
    instruction = prompts.TOOLS.format(
        task=state["task"].goal,
        known=told(state["certified"].known, room),
        view=results(state["evidence"], room),
        failed=failures(state["attempts"]),
        notes=_notes(state),
        kind=state["target"].kind,
        goal=goal_of(state["target"]),
        queries=MOST_QUERIES,
        pages=MOST_PAGES,
    )
    said = await ask(prompt(runtime, instruction), Tools, role="executor", runtime=runtime)
    return chosen_queries(said, set()), chosen_pages(said, state["evidence"].sources)


def _notes(state: RealizeView | AnswerView) -> str:
    told = [*state["belief"].text.splitlines(), *cast(Sequence[str], state.get("advice", ()))]
    return f"\nTo keep in mind:\n{quoted(listed(told))}\n" if told else ""
