"""Customer support over SQLite: four tools, and a scripted model that refunds an order and writes to its customer."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from certigraph.adapters.models.schemas import Schema, minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.state.records import Predicate
from certigraph.state.tools import calls_of

GOAL = "Refund order 17 if it is eligible and tell the customer by mail."

CONDITIONS = ["It is known whether order 17 is eligible.", "Order 17 is refunded.", "The customer has a mail about it."]
SHOWN_BY = ["eligible", "refunded 17", "mail sent"]
"""Text in a tool's answer that shows each condition."""

SCRIPT: list[tuple[str, dict[str, Any]]] = [
    ("look_up", {"order": 17}),
    ("refund", {"order": 17, "amount": 49.9}),
    ("send_mail", {"to": "ann@example.org", "text": "Order 17 was refunded."}),
]
"""The calls that reach the goal."""


class SupportDatabase:
    """The tools of customer support, over a database file in which every effect leaves a row."""

    def __init__(self, path: Path, *, before: Callable[[str], None] = lambda name: None) -> None:
        self.path, self._before = path, before
        self.looked_up = 0
        with self._open() as base:
            base.execute("CREATE TABLE IF NOT EXISTS refunds (number INTEGER, amount REAL)")
            base.execute("CREATE TABLE IF NOT EXISTS mails (address TEXT, body TEXT)")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, timeout=30)

    def look_up(self, order: int) -> str:
        """Look up an order."""
        self.looked_up += 1
        return f"order {order}: 49.9 euros, customer ann@example.org, eligible for a refund"

    def refund(self, order: int, amount: float) -> str:
        """Refund an order."""
        self._before("refund")
        with self._open() as base:
            base.execute("INSERT INTO refunds VALUES (?, ?)", (order, amount))
        self._before("refunded")
        return f"refunded {order}: {amount}"

    def send_mail(self, to: str, text: str) -> str:
        """Send a mail."""
        self._before("send_mail")
        with self._open() as base:
            base.execute("INSERT INTO mails VALUES (?, ?)", (to, text))
        self._before("mail_sent")
        return f"mail sent to {to}"

    def clear(self) -> None:
        """Forget every effect."""
        with self._open() as base:
            base.executescript("DELETE FROM refunds; DELETE FROM mails")

    @property
    def tools(self) -> list[Callable[..., str]]:
        """The tools, as plain functions."""
        return [self.look_up, self.refund, self.send_mail]

    def rows(self, table: str) -> list[Any]:
        """Return the rows of a table, one for each effect."""
        with self._open() as base:
            return base.execute(f"SELECT * FROM {table}").fetchall()


def scripted_model(script: list[tuple[str, dict[str, Any]]] = SCRIPT, **options: Any) -> ScriptedChat:
    """Return a scripted model that makes the calls of a script, one after another, and then hands in an answer."""
    return ScriptedChat(responder=_SupportModel(script), **options)


class _SupportModel:
    def __init__(self, script: list[tuple[str, dict[str, Any]]]) -> None:
        self._script = script

    def __call__(self, prompt: str, schema: Schema) -> Any:
        fields = schema.get("properties", {})
        if "calls" in fields:
            return self._next_calls(fields["calls"]["items"]["anyOf"])
        if {"tools", "conditions"} & set(fields):  # commitment and plan may share a request
            given = {"tools": [name for name, _ in self._script], "conditions": CONDITIONS, "then_plan": False}
            return {**minimal_instance(schema), **{key: value for key, value in given.items() if key in fields}}
        if "holds" in fields:
            claim = {"holds": _count_holding(), "by_calls": numbers_of_calls()}
            return {**minimal_instance(schema), "reachable": True, **claim}
        return minimal_instance(schema)

    def _next_calls(self, options: list[Schema]) -> Any:
        situation = current_situation()
        assert situation is not None
        made = [call.name for step in situation.state["history"] for call in calls_of(step.action) if not call.refused]
        left = [(name, args) for name, args in self._script if made.count(name) == 0]
        offered = {option["properties"]["name"]["const"]: option["properties"]["args"] for option in options}
        if left and left[0][0] in offered:
            name, args = left[0]
        elif "finish" in offered:
            fields = offered["finish"].get("properties", {})
            name, args = "finish", {field: minimal_value(field, part) for field, part in fields.items()}
        else:
            name, args = "target_holds", {}
        return {"thought": "by the script", "calls": [{"name": name, "args": args}]}


def minimal_value(field: str, part: Schema) -> Any:
    """Return a value for a field of the answer."""
    return "Order 17 was refunded." if field == "answer" else minimal_instance(part)


def numbers_of_calls() -> list[int]:
    """Return the numbers of the calls that were made and answered, as the running validator sees them."""
    situation = current_situation()
    assert situation is not None
    answers = situation.view["answers"]
    return [number for number, one in enumerate(answers, 1) if one.made and not one.failed]


def _count_holding() -> int:
    situation = current_situation()
    assert situation is not None
    tail: list[Predicate] = list(situation.view["tail"])
    seen = json.dumps([situation.view["evidence"].view, situation.view["observation"].text])
    holding = 0
    for predicate in tail:
        if predicate.kind == "goal":
            return holding + (situation.view["action"].kind in ("answer", "finish"))
        if SHOWN_BY[CONDITIONS.index(predicate.text)] not in seen:
            break
        holding += 1
    return holding
