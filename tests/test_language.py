"""The language of the product and its tests: words that they do not use, and names that stand for one thing each.

A reader who does not know this project must understand every name and sentence at first reading.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from helpers.files.product import ROOT, product_files, product_path

UNUSED = {
    *("told", "asked", "said", "beside", "anew", "purse", "purses", "desk", "mind", "minds", "bill", "bills", "billed"),
    *("billing", "books", "home", "sound", "room", "rooms", "stood"),
}
"""Words that name nothing and stand in no figure of speech."""

LITERAL = {"asked"}
"""Words that sentences may use for what they mean: a question is asked. Names of tests are sentences, no others are."""

INDOOR_WORLDS = (
    *("benchmarks/scienceworld", "benchmarks/alfworld", "benchmarks/textworld", "benchmarks/travelplanner"),
    *("tests/benchmarks/scienceworld", "tests/benchmarks/alfworld", "tests/benchmarks/textworld"),
    *("tests/benchmarks/travelplanner", "tests/helpers/worlds/recorded_worlds.py"),
    *("tests/helpers/worlds/simulator_states.py", "studies/tdp.py", "tests/studies/test_tdp.py"),
)
"""What is about worlds that are houses, or about trips with nights in hotels: their parts have their usual names."""

FOREIGN = {("home", "adapters/files.py"), ("java_home", "benchmarks/scienceworld/simulator.py")}
"""Names of other programs."""

NOUNS = {"drawing", "listing", "matching", "planning", "scoring", "tuning"}
"""Nouns that end like participles."""

OPEN = {"published"}
"""What is left to rename: evaluation/published_figures.py."""


@cache
def files_of_tests() -> tuple[Path, ...]:
    return tuple(sorted((ROOT / "tests").rglob("*.py")))


def defined_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno


def sentences(source: str, tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Docstrings, the strings under constants, and comments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value, node.lineno
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string, token.start[0]


def words_of_name(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def words_of_sentence(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def unused_words(file: Path) -> Iterator[str]:
    path = product_path(file)
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    allowed = {"room", "rooms"} if path.startswith(INDOOR_WORLDS) else set[str]()
    for name, line in defined_names(tree):
        literal = LITERAL if name.startswith("test_") else set[str]()
        if (name, path) not in FOREIGN and (found := (words_of_name(name) & UNUSED) - allowed - literal):
            yield f"{path}:{line}: {name} contains {', '.join(sorted(found))}"
    for text, line in sentences(source, tree):
        if found := (words_of_sentence(text) & UNUSED) - allowed - LITERAL:
            yield f"{path}:{line}: a sentence contains {', '.join(sorted(found))}"


@pytest.mark.slow
def test_no_name_and_no_sentence_contains_a_private_word():
    assert [finding for file in (*product_files(), *files_of_tests()) for finding in unused_words(file)] == []


@pytest.mark.slow
def test_every_public_class_has_a_name_of_its_own():
    places = defaultdict(list)
    for file in product_files():
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(product_path(file))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_modules_are_named_by_nouns():
    helpers = (file for file in files_of_tests() if not file.stem.startswith("test_"))
    names = {file.stem.rpartition("_")[2] for file in (*product_files(), *helpers) if not file.stem.endswith("__")}
    assert {name for name in names if name.endswith(("ing", "ed"))} - NOUNS == set()
