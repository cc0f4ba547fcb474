"""The actions of search agents: they look for passages, look further on a page, file a finding, answer."""

import re

from pydantic import JsonValue

from certigraph.state.records import Action

SEARCH, CLAIM, ANSWER, FINISH = "search", "claim", "answer", "finish"
"""`answer` may be given anew, `finish` hands an answer in and ends the episode."""

RETRIEVED = "retrieved"
"""In the `args` of an answer: ids of passages that were found for it in other worlds of the same question."""

WRITTEN = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*", re.DOTALL)

ANSWERS = (ANSWER, FINISH)


def search(query: str, **args: JsonValue) -> Action:
    """Look for passages. `args`: `k`, how many; `alpha`, the weight of BM25 against vectors; else the world's own."""
    return use(SEARCH, query, **args)


def answer(text: str) -> Action:
    """Note an answer, which a later one replaces; the episode goes on."""
    return use(ANSWER, text)


def finish(text: str, **args: JsonValue) -> Action:
    """Hand in an answer. `forced` in `args` says why it was not the agent's own decision."""
    return Action(text=f"finish[{text}]", kind=FINISH, args={"answer": text, **args})


def claim(subquestion: str, *, finding: str, title: str, entity: str) -> Action:
    """File what was found for a sub-question, the title of its paragraph, and the entity that later hops need."""
    args: dict[str, JsonValue] = {"subquestion": subquestion, "finding": finding, "title": title, "entity": entity}
    return Action(text=f"claim[{entity}: {finding} ({title})]", kind=CLAIM, args=args)


def use(tool: str, text: str, **args: JsonValue) -> Action:
    """Use a tool of the world by its name; `search` and `finish` are two that most have."""
    field = "answer" if tool in ANSWERS else "query"
    return Action(text=f"{tool}[{text}]", kind=tool, args={field: text, **({} if tool in ANSWERS else args)})


def parsed(action: Action) -> Action | None:
    """The action that an agent means which wrote it freely, as `search[...]`; None where it is not of that form."""
    if action.kind != "text":
        return action
    match = WRITTEN.fullmatch(action.text)
    return use(match[1].lower(), match[2].strip()) if match else None


def asked_for(action: Action) -> str:
    """The words that an action looks for; of other actions their text. Two actions are compared by these."""
    meant = parsed(action)
    return str(meant.args.get("query") or meant.text) if meant else action.text
