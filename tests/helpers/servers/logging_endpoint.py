"""An OpenAI-compatible endpoint that keeps what it receives and answers by the name of the answer's form.

`with logging_endpoint({"NextAction": [{"action": "look around"}]}) as endpoint:` answers requests of that form with
these fields, in order and the last one for ever; fields that are not given have their minimal value.
"""

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from certigraph.adapters.models.schemas import OFFERED, minimal_instance
from helpers.servers.endpoint_stub import JsonHandler, LocalServer, completion, serving

Answers = Mapping[str, Sequence[Mapping[str, Any]]]
"""Fields of the answers, by name of the form."""

DEFAULT_WINDOW = 128_000

OFFERED_LIST = re.compile(r"^<world>\n- (.*)$", re.MULTILINE)


class Received(NamedTuple):
    """A request: name of the answer's form (`text` for free text), and the text of all messages."""

    form: str
    text: str


class LoggingEndpoint(LocalServer):
    """The server; `received` holds the requests in order."""

    def __init__(self, answers: Answers, window: int) -> None:
        super().__init__(_Handler, "/v1")
        self.received: list[Received] = []
        self.window = window
        self._left = {form: list(given) for form, given in answers.items()}
        self._lock = threading.Lock()

    def texts(self, form: str) -> list[str]:
        """The texts of the requests with one form of answer."""
        return [request.text for request in self.received if request.form == form]

    def answer(self, body: dict[str, Any]) -> str:
        form = (body.get("response_format") or {}).get("json_schema") or {}
        name = str(form.get("name", "text"))
        with self._lock:
            self.received.append(Received(name, "\n\n".join(str(message["content"]) for message in body["messages"])))
            left = self._left.get(name, [])
            given = left.pop(0) if len(left) > 1 else left[0] if left else {}
        if "schema" not in form:
            return str(given.get("text", "done"))
        return json.dumps(
            {**minimal_instance(form["schema"]), **copy_offered(form["schema"], body["messages"]), **given}
        )


def copy_offered(schema: dict[str, Any], messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Fields that are to be copied from what the prompt offers, with the first entry of its last list."""
    fields = [name for name, part in schema["properties"].items() if part.get("description") == OFFERED]
    lists = OFFERED_LIST.findall(str(messages[-1]["content"]))
    return {name: lists[-1] for name in fields if lists and "enum" not in schema["properties"][name]}


class _Handler(JsonHandler):
    server: LoggingEndpoint

    def do_GET(self) -> None:  # noqa: N802 (the name is http.server's)
        self.send_json(200, {"data": [{"id": "stub", "max_model_len": self.server.window}]})

    def do_POST(self) -> None:  # noqa: N802
        self.send_json(200, completion(self.server.answer(self.read_json()), "stop"))


@contextmanager
def logging_endpoint(answers: Answers, window: int = DEFAULT_WINDOW) -> Iterator[LoggingEndpoint]:
    with serving(LoggingEndpoint(answers, window)) as server:
        yield server
