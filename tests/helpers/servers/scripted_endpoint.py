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

    The script begins again with every commitment to tools, the first question of an agent.
    """

    def __init__(self, condition: str, script: list[Call], answer: str) -> None:
        super().__init__(_Handler, "/v1")
        self.condition, self.script, self.answer = condition, script, answer
        self.requests: list[dict[str, Any]] = []
        self.made = 0

    def next_call(self, offered: list[str]) -> Call:
        if self.made < len(self.script) and self.script[self.made][0] in offered:
            self.made += 1
            return self.script[self.made - 1]
        if "finish" in offered:
            return "finish", {"answer": self.answer}
        return "target_holds", {}

    def fill(self, schema: dict[str, Any]) -> Any:
        fields = schema.get("properties", {})
        if "tools" in fields:
            self.made = 0
            return {
                **minimal_instance(schema),
                "tools": [name for name, _ in self.script if name in json.dumps(fields["tools"])],
            }
        if "conditions" in fields:
            return {"reasoning": "", "conditions": [self.condition]}
        if "holds" in fields:
            claim = {"holds": int(self.made >= len(self.script)), "by_calls": [1] if self.made else []}
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
        name, args = self.server.next_call([tool["function"]["name"] for tool in body["tools"]])
        call = {"name": name, "arguments": json.dumps({"thought": "by the script", **args})}
        reply = completion("", "tool_calls")
        reply["choices"][0]["message"]["tool_calls"] = [{"id": "1", "type": "function", "function": call}]
        self.send_reply(reply, streamed=bool(body.get("stream")))


def _schema(body: dict[str, Any]) -> dict[str, Any]:
    return dict(body["response_format"]["json_schema"]["schema"])


@contextmanager
def scripted_endpoint(condition: str, script: list[Call], answer: str) -> Iterator[ScriptedEndpoint]:
    with serving(ScriptedEndpoint(condition, script, answer)) as server:
        yield server
