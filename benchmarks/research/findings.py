"""Findings of research steps in prompts, and the items of findings that are lists.

A finding is shown whole, with its sources. An item of a list keeps its own source and words
of it through all later steps.
"""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from certigraph.adapters.models.prompts import bullet_list, numbered_list, one_line, quote, unquote_line
from certigraph.adapters.retrieval.bm25 import words
from certigraph.benchmarks.qa.operators import find_unseen_quotes
from certigraph.benchmarks.research.plans import ListedItem, Shown
from certigraph.state.certified_states import KnownFinding
from certigraph.state.records import Arguments, Attempt, Finding, FoundItem
from certigraph.state.search import clip_words, unique_texts

# Findings in prompts.


def format_findings(known: Sequence[KnownFinding], most: int, *, quotes: bool = True) -> Shown:
    """Format findings for a prompt, in at most `most` characters: whole ones with their sources.

    They are quoted, because they come from pages. Forced findings are marked as uncertain. If they are too long, the
    words of their sources are left out, then what earlier steps say of their items, then the end.

    Args:
        known: the findings.
        most: maximum characters.
        quotes: whether whole findings have the words of their sources.
    """
    # whole as long as they fit
    forms = [(quotes, True, ""), (False, True, "words of the sources of findings"), (False, False, "details of items")]
    for with_quotes, with_details, left_out in forms:
        text = _format_all(known, quotes=with_quotes, details=with_details)
        if len(text) <= most:
            return Shown(quote(text, most), (left_out,) if left_out and (quotes or not with_details) else ())
    return Shown(quote(clip_words(text, most), most), ("the end of findings",))


def _format_all(known: Sequence[KnownFinding], *, quotes: bool, details: bool) -> str:
    latest = len(known) - 1
    return bullet_list(
        _format_whole(one, quotes=quotes, details=details or index == latest) for index, one in enumerate(known)
    )


def _format_whole(known: KnownFinding, *, quotes: bool, details: bool) -> str:
    finding = known.finding
    items = format_items(finding.items, quotes=quotes) if details else [", ".join(one.name for one in finding.items)]
    lines = [
        f"{finding.about} -> {finding.text}{_format_marks(known)} [from {', '.join(finding.sources)}]",
        *([f"  words of the sources: {' | '.join(finding.quotes)}"] if quotes and finding.quotes else []),
        *(f"  {line}" for line in items if line),
    ]
    return "\n".join(lines)


def _format_marks(known: KnownFinding) -> str:
    dispute = known.finding.dispute
    marks = [
        *(["uncertain, not certified"] if known.forced else []),
        *([f"some sources say otherwise: {dispute}"] if dispute else []),
    ]
    return f" ({'; '.join(marks)})" if marks else ""


def format_items(items: Sequence[FoundItem], *, quotes: bool = True) -> list[str]:
    """Format the items of a finding as numbered lines, with their sources and the words that show them."""
    return [f"{number}. {item.text}{_format_source(item) if quotes else ''}" for number, item in enumerate(items, 1)]


def _format_source(item: FoundItem) -> str:
    parts = [*([repr(item.quote)] if item.quote else []), *([item.source] if item.source else [])]
    return f" ({', '.join(parts)})" if parts else ""


def format_judged(finding: Finding) -> str:
    """Format a finding for the model that judges it: its text, all items, and the words quoted for both."""
    quotes = [f"words of the sources: {' | '.join(finding.quotes)}"] if finding.quotes else []
    return "\n".join([finding.text, *format_items(finding.items), *quotes])


# Refused tries at a step, and what they established, which the next try builds on. They are JSON, because an action or
# a predicate carries them.


def tries_of(attempts: Sequence[Attempt]) -> list[JsonValue]:
    """Return refused attempts at a step: what each did, what it established from which sources, and why it was refused.

    The finding of a try that established nothing is empty.
    """
    refused = ((a, a.verdict.finding or Finding(about="", text="", sources=())) for a in attempts)
    return [
        {
            "action": attempt.action.text,
            "finding": finding.text,
            "sources": [*finding.sources] if finding.text else [],
            "reason": attempt.verdict.reason,
            **({"items": [item.as_json() for item in finding.items]} if finding.items else {}),
        }
        for attempt, finding in refused
    ]


def format_tries(tries: JsonValue) -> str:
    """Format the result of `tries_of` for a prompt. The text is quoted, because it repeats pages."""
    text = numbered_list(
        f"{e.get('action')}\n   established: {_whole(e) or 'nothing'}\n   not accepted: {e.get('reason')}"
        for e in _entries_of(tries)
    )
    return quote(text, len(text))


def _whole(entry: Mapping[str, JsonValue]) -> str:
    return Finding(about="", text=str(entry.get("finding")), sources=(), items=tuple(_items_in(entry))).whole


def format_partial_findings(tries: JsonValue) -> str:
    """Format what refused tries, which an action carried, established; empty if they established nothing."""
    entries = [entry for entry in _entries_of(tries) if entry.get("finding")]
    text = bullet_list(_format_partial(entry) for entry in entries)
    return quote(text, len(text)) if entries else ""


def _format_partial(entry: Mapping[str, JsonValue]) -> str:
    lines = [f"{entry.get('finding')} (not accepted: {entry.get('reason')})"]
    return "\n".join([*lines, *(f"  {line}" for line in format_items(_items_in(entry)))])


def _items_in(entry: Mapping[str, JsonValue]) -> list[FoundItem]:
    items = entry.get("items")
    return [FoundItem.model_validate(item) for item in items] if isinstance(items, list) else []


def partial_sources(args: Arguments) -> list[str]:
    """Return the sources of what the refused tries that an action carries established."""
    return [url for entry in _entries_of(args.get("tries")) for url in unique_texts(entry.get("sources"))]


def failed_to_establish(args: Arguments) -> bool:
    """Return whether the latest of the refused tries that an action carries established nothing."""
    return any(not entry.get("finding") for entry in _entries_of(args.get("tries"))[-1:])


def _entries_of(tries: JsonValue) -> list[dict[str, JsonValue]]:
    return [entry for entry in tries if isinstance(entry, dict)] if isinstance(tries, list) else []


# The items of a list, as the extractor names them.

MAX_NAMED_ITEMS = 8
"""Maximum number of items that the reason of a refusal names."""


def resolve_items(
    listed: Sequence[ListedItem], sources: Sequence[str], known: Sequence[KnownFinding]
) -> tuple[FoundItem, ...]:
    """Return the items of an extractor's answer with the URLs of their sources, each once.

    Args:
        listed: the items of the answer, which name sources by number.
        sources: URLs of the sources, in order.
        known: the findings so far. An item without a source of its own keeps that of the item of the same name and
            detail, else of the latest one of the name.
    """
    earlier = _known_items(known)
    found = (_resolve_item(item, sources, earlier) for item in listed if words(item.name))
    return tuple(dict.fromkeys(found))


def _resolve_item(item: ListedItem, sources: Sequence[str], earlier: Mapping[str, Sequence[FoundItem]]) -> FoundItem:
    name, detail = unquote_line(item.name), unquote_line(item.detail)
    if 1 <= item.source <= len(sources):
        return FoundItem(name=name, detail=detail, source=sources[item.source - 1], quote=one_line(item.words))
    namesakes = earlier.get(_key_of(name), [FoundItem(name=name)])
    same = (one for one in reversed(namesakes) if _key_of(one.detail) == _key_of(detail))
    before = next(same, namesakes[-1])
    return FoundItem(name=name, detail=detail or before.detail, source=before.source, quote=before.quote)


def items_problem(
    listed: Sequence[ListedItem], texts: Mapping[int, str], known: Sequence[KnownFinding], *, derived: bool
) -> str:
    """Return why the items of an extractor's answer are not supported; empty if they are.

    Args:
        listed: the items of the answer.
        texts: texts of the sources by number.
        known: the findings so far, whose items need no source.
        derived: whether items need not occur anywhere, as the results of a calculation.
    """
    earlier = _known_items(known)
    loose = [
        item.name for item in listed if item.source not in texts and not derived and _key_of(item.name) not in earlier
    ]
    unseen = [item.name for item in listed if item.source in texts and not _is_shown(item, texts[item.source])]
    problems = [
        *([f"no source and no finding before it has {_join_few(loose)}"] if loose else []),
        *([f"the words quoted for {_join_few(unseen)} are not in the source"] if unseen else []),
    ]
    return f"of {len(listed)} items: {'; '.join(problems)}" if problems else ""


def _known_items(known: Sequence[KnownFinding]) -> dict[str, list[FoundItem]]:
    by_name: dict[str, list[FoundItem]] = {}
    for item in (item for one in known for item in one.finding.items):
        by_name.setdefault(_key_of(item.name), []).append(item)
    return by_name


def _key_of(name: str) -> str:
    return " ".join(words(name))


def _is_shown(item: ListedItem, text: str) -> bool:
    return bool(words(item.words)) and not find_unseen_quotes([item.words], text)


def _join_few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED_ITEMS} more" if len(names) > MAX_NAMED_ITEMS else ""
    return f"{', '.join(repr(one_line(name)) for name in names[:MAX_NAMED_ITEMS])}{more}"
