"""The form of a chat completion that cites the web, and the sentence that each citation stands by."""

import re
from collections.abc import Iterator
from typing import Any

from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from pydantic import Field

from certigraph.adapters.models.token_counts import credible
from certigraph.adapters.web.requests import Form
from certigraph.adapters.web.results import Found

_LINK = re.compile(r"\s*\(?\[[^\]]*\]\([^)\s]*\)\)?")
"""A citation as these models write it: `([site.org](https://site.org/page))`."""

_STOP = re.compile(r"[.!?][\"')\]]?(?=\s|$)|\n")

NEAR = 2_000
"""Characters on either side of a citation in which its sentence is looked for."""

_CAMPAIGN = re.compile(r"[?&]utm_source=openai$")
"""Added to every address that is cited; a page has one address, whoever cites it."""


class _Cited(Form):
    title: str | None = None
    url: str | None = None
    start_index: int = 0
    end_index: int = 0


class _Annotation(Form):
    url_citation: _Cited | None = None
    """Missing in annotations of other types."""


class _Message(Form):
    content: str | None = None
    annotations: list[_Annotation] | None = None


class _Choice(Form):
    message: _Message


class Completion(Form):
    """What is read of an answer."""

    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None

    def found(self) -> Iterator[Found]:
        """The pages that the answer cites, each with the sentence it is cited for."""
        message = self.choices[0].message
        for cited in (annotation.url_citation for annotation in message.annotations or []):
            if cited:
                said = sentence(message.content or "", max(0, cited.start_index), max(0, cited.end_index))
                yield Found(cited.title, _CAMPAIGN.sub("", cited.url or ""), said)

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.choices[0].message.content or ""

    def used(self) -> UsageMetadata | None:
        """The tokens that are billed; None where the endpoint sends no counts that can be used."""
        used = self.usage
        if not isinstance(used, dict) or not credible(used):
            return None
        read, written = used["prompt_tokens"], used["completion_tokens"]
        cached = (used.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        details = InputTokenDetails(cache_read=cached)
        return UsageMetadata(
            input_tokens=read, output_tokens=written, total_tokens=read + written, input_token_details=details
        )


def sentence(content: str, start: int, end: int) -> str:
    """The sentence that characters `start` to `end` stand in; the one before where they are a link after its stop."""
    parts = content[max(0, start - NEAR) : start], content[start:end][:NEAR], content[end:][:NEAR]
    before, cited, after = (_LINK.sub("", part) for part in parts)
    link = not cited.strip()
    if link:
        before, after = before.rstrip(" ([\t\n"), after.lstrip(")]")
    stops = [0, *(stop.end() for stop in _STOP.finditer(before))]
    if link and len(stops) > 1 and stops[-1] == len(before):
        return before[stops[-2] :].strip()
    rest = cited + after
    stop = _STOP.search(rest, max(0, len(cited.rstrip()) - 1))
    return f"{before[stops[-1] :]}{rest[: stop.end()] if stop else rest}".strip()
