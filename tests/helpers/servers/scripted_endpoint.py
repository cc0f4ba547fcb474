"""An OpenAI-compatible endpoint that answers by a script: calls of tools in order, and verdicts that fit them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from certigraph.adapters.models.schemas import minimal_instance
from helpers.servers.endpoint_stub import JsonHandler, LocalServer, completion, serving

Call = tuple[str, dict[str, Any]]


class ScriptedEndpoint(LocalServer):
    """Makes the calls of a script, one in each request that offers tools; its one condition holds after the last.

    The script begins again with every commitment to tools, the first question of an agent, and with the first request
    of an agent of somebody else's.
    """

    def __init__(self, condition: str, script: list[Call], answer: str) -> None:
        super().__init__(_Handler, "/v1")
        self.condition, self.script, self.answer = condition, script, answer
        self.requests: list[dict[str, Any]] = []
        self.made = 0

    def next_calls(self, offered: list[str], *, begins: bool) -> list[Call]:
        if not {"finish", "target_holds"} & set(offered):  # somebody else's agent, which ends with a text
            self.made = 0 if begins else self.made
            return [self.next_call(offered)] if self.made < len(self.script) else []
        if "commit_to_tools" not in offered:
            return [self.next_call(offered)]
        self.made = 0
        committed = [name for name, _ in self.script if name in offered]
        return [("commit_to_tools", {"tools": committed}), self.next_call(offered)]

    def next_call(self, offered: list[str]) -> Call:
        if self.made < len(self.script) and self.script[self.made][0] in offered:
            self.made += 1
            return self.script[self.made - 1]
        if "finish" in offered:
            return "finish", {"answer": self.answer}
        return "target_holds", {}

    def fill(self, schema: dict[str, Any]) -> Any:
        fields = schema.get("properties", {})
        if {"tools", "conditions"} & set(fields):
            self.made = 0 if "tools" in fields else self.made
            tools = [name for name, _ in self.script if name in json.dumps(fields.get("tools"))]
            given = {"tools": tools, "conditions": [self.condition], "then_plan": False}
            return {**minimal_instance(schema), **{key: value for key, value in given.items() if key in fields}}
        if "holds" in fields:  # the condition and the goal, once all is done
            claim = {"holds": 2 * (self.made >= len(self.script)), "by_calls": [1] if self.made else []}
            return {**minimal_instance(schema), "reachable": True, **claim}
        return minimal_instance(schema)


class _Handler(JsonHandler):
    server: ScriptedEndpoint

    def do_POST(self) -> None:  # noqa: N802 - the name that the base class calls
        body = self.read_json()
        self.server.requests.append(body)
        if "tools" not in body:
            filled = completion(json.dumps(self.server.fill(_schema(body))), "stop")
            self.send_reply(filled, streamed=bool(body.get("stream")))
            return
        calls = self.server.next_calls(
            [tool["function"]["name"] for tool in body["tools"]],
            begins=all(message["role"] in ("system", "user") for message in body["messages"]),
        )
        reply = completion("by the script" if calls else self.server.answer, "tool_calls" if calls else "stop")
        reply["choices"][0]["message"]["tool_calls"] = [
            {"id": f"{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            for n, (name, args) in enumerate(calls, 1)
        ]
        self.send_reply(reply, streamed=bool(body.get("stream")))


def _schema(body: dict[str, Any]) -> dict[str, Any]:
    return dict(body["response_format"]["json_schema"]["schema"])


@contextmanager
def scripted_endpoint(condition: str, script: list[Call], answer: str) -> Iterator[ScriptedEndpoint]:
    with serving(ScriptedEndpoint(condition, script, answer)) as server:
        yield server
