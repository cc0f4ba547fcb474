"""Scripted models and the check of calls before they are made.

A script that does not know the check allows every call, so that a test of something else need not speak of it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from certigraph.adapters.models import scripts
from certigraph.adapters.models.schemas import Schema

ALLOWED: Mapping[str, Any] = {"reason": "The script makes right calls.", "problems": [], "consent": []}
"""The answer that allows all calls."""


def is_check(schema: Schema) -> bool:
    """Return whether an answer schema is that of a check of calls."""
    return "problems" in schema.get("properties", {})


class CheckingScript:
    """A script that answers the check of calls itself.

    Args:
        respond: answers every other request.
        check: answers the check, from the prompt.
    """

    answers_checks = True

    def __init__(self, respond: Callable[[str, Schema], Any], check: Callable[[str], Any]) -> None:
        self._respond, self.check = respond, check
        self.prompts: list[str] = []
        """The prompts of all checks."""

    def __call__(self, prompt: str, schema: Schema) -> Any:
        if not is_check(schema):
            return self._respond(prompt, schema)
        self.prompts.append(prompt)
        return self.check(prompt)


def allow_checked_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every scripted model allow the calls that are checked, unless its responder has `answers_checks`."""
    answer = scripts.ScriptedChat._answer

    def answer_or_allow(chat: scripts.ScriptedChat, prompt: str, form: Schema | None) -> str:
        schema = form["json_schema"]["schema"] if form else {}
        answers_itself = chat.responder is None or getattr(chat.responder, "answers_checks", False)
        if answers_itself or not is_check(schema):
            return answer(chat, prompt, form)
        return json.dumps(ALLOWED)

    monkeypatch.setattr(scripts.ScriptedChat, "_answer", answer_or_allow)
