"""One JSON row of a corpus, in any of the layouts that are read, as passages."""

import hashlib
from typing import Any

from certigraph.state.passages import Passage

LAYOUTS = (
    '{"id": "1", "title": "...", "text": "..."}, the text also as "contents", "paragraph_text" or a list of sentences, '
    "or a question of HotpotQA or MuSiQue with its paragraphs"
)


def paragraph(title: str, text: str) -> Passage:
    """A paragraph without an id of its own: it gets sixteen hex digits of what it says, the same in every file."""
    digest = hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()
    return Passage(id=digest[:16], title=title, text=text)


def question_paragraphs(row: dict[str, Any]) -> list[Passage]:
    """The paragraphs of a question, in the official layout of HotpotQA or MuSiQue; none where the row is no question.

    Raises:
        KeyError, TypeError, ValueError: a paragraph is malformed.
    """
    if "context" in row:
        return [paragraph(title, "".join(sentences)) for title, sentences in row["context"]]
    return [paragraph(one["title"], one["paragraph_text"]) for one in row.get("paragraphs", ())]


def row_passage(row: dict[str, Any]) -> Passage:
    """The passage that a row is; without an id of its own it gets one as `paragraph` gives it.

    Raises:
        KeyError, TypeError, ValueError: it has no text, id and text are no strings, or half a surrogate is in them.
    """
    name = next((name for name in ("text", "contents", "paragraph_text") if name in row), "text")
    text = row[name] if isinstance(row[name], str) else "".join(row[name])
    passage = paragraph(row.get("title") or "", text)
    if "id" in row:
        id = str(row["id"]) if isinstance(row["id"], int) else row["id"]
        passage = Passage(id=id, title=passage.title, text=text)
    f"{passage.id}{passage.title}{passage.text}".encode()  # JSON may hold "\ud800", which no file of ours can
    return passage
