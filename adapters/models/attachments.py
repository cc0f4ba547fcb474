"""Attachments: images and files of a request, given to models that read them and named to all others."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage

from certigraph.adapters.composed_chat import models_in

Attachment: TypeAlias = dict[str, Any]
"""A content block of a LangChain message that is not text."""

_KINDS = {
    **dict.fromkeys(("image", "image_url", "input_image"), ("image", "image_inputs")),
    **dict.fromkeys(("file", "document", "input_file", "text-plain"), ("file", "pdf_inputs")),
    **dict.fromkeys(("audio", "input_audio"), ("recording", "audio_inputs")),
    "video": ("video", "video_inputs"),
}
"""Type of a content block -> what it is called, and the key in LangChain's `model.profile` for models that read it."""


def find_attachments(messages: Iterable[BaseMessage]) -> tuple[Attachment, ...]:
    """Return what is attached to the messages of people."""
    people = (message for message in messages if isinstance(message, HumanMessage))
    blocks = (block for message in people if isinstance(message.content, list) for block in message.content)
    return tuple(block for block in blocks if isinstance(block, dict) and block.get("type") != "text")


def attach(attachments: Sequence[Attachment], messages: list[BaseMessage], model: BaseChatModel) -> list[BaseMessage]:
    """Return the messages of a request with the attachments in the last one, which is a text.

    A model gets an attachment if its profile says that it reads the kind. What it does not get is named in one line.
    """
    if not attachments:
        return messages
    *before, last = messages
    read = [one for one in attachments if _is_read(one, model)]
    left = describe_attachments([one for one in attachments if one not in read])
    text = f"{last.text}\n\n(Attached to the request, and not shown to you: {left}.)" if left else str(last.text)
    return [*before, HumanMessage([{"type": "text", "text": text}, *read] if read else text)]


def _is_read(attachment: Attachment, model: BaseChatModel) -> bool:
    _, key = _KINDS.get(str(attachment.get("type")), ("", ""))
    return bool(key) and all((one.profile or {}).get(key) for one in models_in(model))


def describe_attachments(attachments: Iterable[Attachment]) -> str:
    """Describe attachments: `image`, `2 times file (application/pdf)`; empty without any."""
    counts = Counter(map(_describe, attachments))
    return ", ".join(f"{count} times {one}" if count > 1 else one for one, count in counts.items())


def _describe(attachment: Attachment) -> str:
    name, _ = _KINDS.get(str(attachment.get("type")), ("attachment", ""))
    form = attachment.get("mime_type")
    return f"{name} ({form})" if isinstance(form, str) and len(form) < 100 and form.isascii() else name


def text_of_request(message: BaseMessage) -> str:
    """Return the text of a message to a model, with one line about what is attached to it."""
    attached = describe_attachments(find_attachments([message]))
    return f"{message.text}\n\n(Attached: {attached}.)" if attached else str(message.text)
