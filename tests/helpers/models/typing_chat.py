"""A scripted model that writes its replies a few characters at a time where it is streamed."""

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from certigraph import ScriptedChat

PIECE = 6
"""Characters of a piece."""


class TypingChat(ScriptedChat):
    """A scripted model that can be streamed."""

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        [generation] = self._generate(messages, stop, **kwargs).generations
        for start in range(0, len(generation.text), PIECE):
            yield ChatGenerationChunk(message=AIMessageChunk(generation.text[start : start + PIECE]))
