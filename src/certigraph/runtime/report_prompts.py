"""Prompts and replies in a report, read from the file in which a run kept them."""

import json
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue

from certigraph.adapters.json_lines import read_bounded_lines
from certigraph.adapters.models.exchanges import KeptExchange
from certigraph.adapters.trajectories import MAX_TRAJECTORY_LINE
from certigraph.runtime.texts import format_count
from certigraph.state.endings import Fault

MAX_PROMPT_CHARACTERS = 2_000_000
"""Maximum number of characters of all prompts and replies in a report, so that a browser opens it at once."""


class ShownPrompt(NamedTuple):
    """A prompt and its reply as a report shows them; without texts if the report has no space left for them."""

    number: int
    """Line of the file."""
    label: str
    """Node and role of the call, and the tokens of prompt and reply."""
    texts: list[tuple[str, str]]
    """Role and text of each message, then the reply, why it was refused, and the parameters of the request."""


class KeptPrompts:
    """Prompts and replies of a run, handed out until MAX_PROMPT_CHARACTERS are used up. Without a file there are none.

    Args:
        path: the file, `prompts.jsonl` in the folder of the run.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._starts = path, [0]
        self._left = MAX_PROMPT_CHARACTERS
        self._rest: set[int] = set()
        if path.is_file():
            with path.open("rb") as file:
                lines = read_bounded_lines(file, str(path), MAX_TRAJECTORY_LINE, _ADVICE)
                lengths = [len(line) for line in lines if line.endswith(b"\n")]  # a running process may write one
            self._starts = list(accumulate(lengths, initial=0))
            self._rest = set(range(1, len(lengths) + 1))

    def take(self, numbers: Iterable[int]) -> list[ShownPrompt]:
        """Return the prompts on these lines of the file. Lines that it does not have are left out.

        Raises:
            Fault: ("data") a line of the file is damaged.
        """
        return [self._show(number) for number in numbers if 0 < number < len(self._starts)]

    def take_rest(self) -> Iterator[ShownPrompt]:
        """Return the prompts that were not taken yet, while there is space for their texts. Raises as `take` does."""
        for number in sorted(self._rest):
            shown = self._show(number)
            if not shown.texts:
                self._rest.add(number)
                return
            yield shown

    @property
    def kept(self) -> bool:
        """Whether there is a prompt."""
        return len(self._starts) > 1

    @property
    def missing(self) -> str:
        """Number of the prompts that were not taken yet; empty if there are none."""
        return format_count(len(self._rest), "more prompt") if self._rest else ""

    def _show(self, number: int) -> ShownPrompt:
        self._rest.discard(number)
        shown = self._read(number)
        size = sum(len(text) for _, text in shown.texts)
        if size > self._left:
            return shown._replace(texts=[])
        self._left -= size
        return shown

    def _read(self, number: int) -> ShownPrompt:
        with self.path.open("rb") as file:
            file.seek(self._starts[number - 1])
            line = file.read(self._starts[number] - self._starts[number - 1])
        try:
            kept = KeptExchange.model_validate_json(line)
            return ShownPrompt(number, _label(kept), list(_texts_of(kept)))
        except ValueError as error:  # also of numbers with too many digits to be written
            raise Fault("data", f"{self.path}:{number}: not a line of kept prompts: {_ADVICE}") from error


_ADVICE = "restore the file, or delete it to get the report without prompts"


def _label(kept: KeptExchange) -> str:
    call: dict[str, Any] = kept.call
    place = f"{kept.subtask}: {kept.node}" if kept.subtask else kept.node
    read, wrote = call.get("input_tokens", 0), call.get("output_tokens", 0)
    counted = isinstance(read, int) and isinstance(wrote, int)
    tokens = f"prompt {read:,}, reply {wrote:,} tokens" if counted else ""
    parts = [place, str(call.get("role", "")), tokens, "cached" if call.get("cached") else ""]
    return " · ".join(filter(None, parts))


def _texts_of(kept: KeptExchange) -> Iterator[tuple[str, str]]:
    request: dict[str, Any] = {**kept.request}
    messages = request.pop("messages", [])
    for message in messages if isinstance(messages, list) else []:
        others = {**message} if isinstance(message, dict) else {"content": message}
        yield str(others.pop("role", "")), _to_text(others.pop("content", ""))
        yield from ((name.replace("_", " "), _to_text(value)) for name, value in others.items())
    yield "reply", _to_text(kept.response) or "(none)"
    if failure := kept.call.get("failure"):
        yield "failure", str(failure)
    yield from ((name.replace("_", " "), _to_text(value)) for name, value in request.items())


def _to_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
