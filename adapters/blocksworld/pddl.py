"""Reads BlocksWorld problems in PDDL: one text, one file, a folder, or a tar archive."""

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from certigraph.adapters.blocksworld.instances import Instance
from certigraph.adapters.blocksworld.strips import Fact, ordered
from certigraph.adapters.rows import MOST_SETTINGS, file_text, whole_bytes
from certigraph.state.endings import Fault

_PROBLEM = "(problem"
"""Tells a problem from the domain, which often lies in the same folder."""


def read_problem(text: str, source: str = "problem") -> Instance:
    """The instance of one `(define (problem ...))`, in which blocks, init and goal are in a fixed order.

    Raises:
        Fault: ("data") naming `source`, when the text is no BlocksWorld problem of positive ground facts.
    """
    body = re.sub(r";.*", "", text).lower()
    try:
        return Instance(
            blocks=tuple(sorted(_section(body, "objects").split(), key=lambda block: (len(block), block))),
            init=_facts(_section(body, "init")),
            goal=_facts(_section(body, "goal")),
        )
    except ValueError as error:
        raise Fault("data", f"{source} is no BlocksWorld problem: {error}; compare PlanBench's instances") from error


def read_problems(source: Path) -> dict[str, Instance]:
    """All problems of a .pddl file, a folder or a tar archive, by path without suffix: `hard/instance-1`.

    Sorted by set and number. Raises Fault("data") when there are none.
    """
    try:
        texts = dict(_archive(source) if source.is_file() and source.suffix != ".pddl" else _files(source))
    except (OSError, EOFError, UnicodeError, tarfile.TarError) as error:
        raise Fault("data", f"cannot read {source} ({error}); give a .pddl file, a folder or a tar archive") from error
    if not texts:
        raise Fault("data", f"no PDDL problem in {source}; give a .pddl file, or a folder or tar archive of them")
    return {name: read_problem(texts[name], f"{source}: {name}.pddl") for name in sorted(texts, key=_by_number)}


def _files(source: Path) -> Iterator[tuple[str, str]]:
    root, paths = (source, source.rglob("*.pddl")) if source.is_dir() else (source.parent, iter([source]))
    for path in paths:
        if _PROBLEM in (text := file_text(path, MOST_SETTINGS)):
            yield path.relative_to(root).with_suffix("").as_posix(), text


def _archive(source: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(source) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith(".pddl") else None
            if stream and _PROBLEM in (text := whole_bytes(stream, f"{source}: {member.name}", MOST_SETTINGS).decode()):
                yield Path(member.name).with_suffix("").as_posix(), text


def _section(body: str, name: str) -> str:
    """What stands between `(:name` and the parenthesis that closes it."""
    _, found, rest = body.partition(f"(:{name}")
    depth = 1
    for end, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return rest[:end]
    raise ValueError(f"its (:{name} ...) is {'never closed' if found else 'missing'}")


def _facts(section: str) -> tuple[Fact, ...]:
    """The innermost parentheses; of what is around them only `and` is understood."""
    atoms = re.findall(r"\(([^()]+)\)", section)
    if set(re.findall(r"\w+", re.sub(r"\([^()]+\)", "", section))) - {"and"}:
        raise ValueError(f"only a conjunction of facts is understood, not {section.strip()!r}")
    facts = (Fact(name, tuple(args)) for name, *args in map(str.split, atoms))
    return tuple(ordered(facts))


def _by_number(name: str) -> tuple[str, int, str]:
    """instance-2 before instance-10."""
    folder, _, file = name.rpartition("/")
    return folder, int("".join(filter(str.isdigit, file)) or 0), file
