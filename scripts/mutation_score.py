"""Measure how many small defects the tests notice: change one place at a time, and run the tests that cover it.

    pip install pytest-cov
    python scripts/mutation_score.py map TREE --map coverage.db
    python scripts/mutation_score.py run TREE --map coverage.db --mutants 200 --out mutants.csv

TREE is a checkout that nobody else uses: `run` edits its files, one after the other, and restores them. `map` runs the
fast tests once with coverage contexts (pytest-cov). `run` draws the same number of places from each of AREAS, by a
seed; runs the tests that cover the changed line, the quickest first and at most --tests of them; and writes a row for
each place: killed, survived, not covered by any fast test, or no result, where pytest found no test of that name. Rows
that the file holds are not run again. Prints the score by folder with 95 % Wilson intervals.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from certigraph.evaluation.statistics import wilson_interval

AREAS = ("state", "nodes", "graphs", "src/certigraph/runtime", "src/certigraph/evaluation/statistics.py")
"""Folders, and one module, from which places are drawn."""

COLUMNS = ("area", "file", "line", "before", "after", "outcome", "tests", "seconds")

TIMEOUT_SECONDS = 300
"""Seconds after which the tests of a mutant are stopped; a mutant that hangs counts as killed."""

OPPOSITE_COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(), ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(), ast.In: ast.NotIn(), ast.NotIn: ast.In(), ast.Is: ast.IsNot(), ast.IsNot: ast.Is(),
}  # fmt: skip
OPPOSITE_OPERATORS: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.Div(), ast.Div: ast.Mult(), ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.Mult(), ast.BitOr: ast.BitAnd(), ast.BitAnd: ast.BitOr(),
}  # fmt: skip


class Mutant(NamedTuple):
    """A change of one expression or statement: file, position in bytes, the text before and after."""

    area: str
    file: str
    line: int
    start: int
    end: int
    before: str
    after: str


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    covered = commands.add_parser("map", help="run the fast tests once and record which test covers which line")
    covered.add_argument("--workers", type=int, default=2)
    scored = commands.add_parser("run", help="change places and run the tests that cover them")
    scored.add_argument("--mutants", type=int, default=200)
    scored.add_argument("--tests", type=int, default=400, help="maximum number of tests for a mutant")
    scored.add_argument("--seed", type=int, default=1)
    scored.add_argument("--out", type=Path, required=True)
    for command in (covered, scored):
        command.add_argument("tree", type=Path)
        command.add_argument("--map", type=Path, required=True)
    options = parser.parse_args()
    tree, database = options.tree.resolve(), options.map.resolve()
    if options.command == "map":
        return _record_coverage(tree, database, options.workers)
    places = _draw_mutants(tree, options.mutants // len(AREAS), random.Random(options.seed))
    _score_mutants(tree, places, _CoverageMap(database, tree), options.tests, options.out)
    print(_format_score(options.out))
    return 0


# Places that can be changed.


def _draw_mutants(tree: Path, number: int, draw: random.Random) -> list[Mutant]:
    chosen: list[Mutant] = []
    for area in AREAS:
        files = [tree / area] if area.endswith(".py") else sorted((tree / area).rglob("*.py"))
        candidates = [mutant for file in files for mutant in _mutants_of(area, file, tree)]
        chosen += draw.sample(candidates, min(number, len(candidates)))
    return chosen


def _mutants_of(area: str, file: Path, tree: Path) -> Iterator[Mutant]:
    source = file.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for node in (part for statement in function.body for part in ast.walk(statement)):
            for changed, after in _changes_of(node):
                start = starts[changed.lineno - 1] + changed.col_offset
                end = starts[(changed.end_lineno or 0) - 1] + (changed.end_col_offset or 0)
                before = source[start:end].decode()
                yield Mutant(area, str(file.relative_to(tree)), changed.lineno, start, end, before, after)


def _changes_of(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    # An expression or statement, and the text that takes its place.
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators):
            swapped = ast.Compare(left, [OPPOSITE_COMPARISONS[type(operator)]], comparators)
            yield node, f"({ast.unparse(swapped)})"
        case ast.BoolOp(op=operator, values=values):
            yield node, f"({ast.unparse(ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPPOSITE_OPERATORS:
            if not isinstance(left, ast.Constant) or not isinstance(left.value, str):
                yield node, f"({ast.unparse(ast.BinOp(left, OPPOSITE_OPERATORS[type(operator)], right))})"
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(value)):
            yield node, str(value + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield node, f"({ast.unparse(ast.IfExp(test, orelse, body))})"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield node, "pass"
        case ast.Continue():
            yield node, "break"
        case _:
            return


# Tests that cover a line.


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree / "src"), "CI": "true"}


def _record_coverage(tree: Path, database: Path, workers: int) -> int:
    settings = tree / ".coveragerc-mutation"
    settings.write_text(f"[run]\ndata_file = {database}\nsource = {', '.join(_sources(tree))}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--cov", "--cov-context=test"]
    command += [f"--cov-config={settings}", "--cov-report="]
    try:
        return subprocess.run(command, cwd=tree, env=_environment(tree), check=False).returncode
    finally:
        settings.unlink()


def _sources(tree: Path) -> list[str]:
    return sorted({str(tree / area.removesuffix("/statistics.py")) for area in AREAS})


class _CoverageMap:
    # Which tests cover a line, the quickest first.

    def __init__(self, database: Path, tree: Path) -> None:
        from coverage import CoverageData

        data = CoverageData(str(database))
        data.read()
        self._lines: dict[str, dict[int, list[str]]] = defaultdict(dict)
        for name in data.measured_files():
            inside = Path(name).resolve()
            if inside.is_relative_to(tree):
                self._lines[str(inside.relative_to(tree))] = data.contexts_by_lineno(name)
        reach = Counter(test for lines in self._lines.values() for tests in lines.values() for test in tests)
        self._reach = reach

    def tests_of(self, mutant: Mutant, most: int) -> list[str]:
        # tests that reach few lines are quick and close to the place
        contexts = {context.partition("|")[0] for context in self._lines[mutant.file].get(mutant.line, []) if context}
        return sorted(contexts, key=lambda test: (self._reach[test], test))[:most]


# Scores.


def _score_mutants(tree: Path, places: Sequence[Mutant], covered: _CoverageMap, most: int, out: Path) -> None:
    done = _read_rows(out) if out.is_file() else []
    known = {(row["file"], row["line"], row["before"], row["after"]) for row in done}
    with out.open("a", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, COLUMNS)
        if not done:
            rows.writeheader()
        for mutant in places:
            if (mutant.file, str(mutant.line), mutant.before, mutant.after) in known:
                continue
            tests, begun = covered.tests_of(mutant, most), time.monotonic()
            outcome = _outcome_of(tree, mutant, tests) if tests else "not covered"
            seconds = round(time.monotonic() - begun, 1)
            texts = {"area": mutant.area, "file": mutant.file, "before": mutant.before, "after": mutant.after}
            rows.writerow({**texts, "line": mutant.line, "outcome": outcome, "tests": len(tests), "seconds": seconds})
            file.flush()


def _outcome_of(tree: Path, mutant: Mutant, tests: Sequence[str]) -> str:
    file = tree / mutant.file
    original = file.read_bytes()
    listed = tree / ".mutation-tests"
    listed.write_text("\n".join(tests), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout=60", f"@{listed}"]
    try:
        file.write_bytes(original[: mutant.start] + mutant.after.encode() + original[mutant.end :])
        ended = subprocess.run(
            command, cwd=tree, env=_environment(tree), capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
        # pytest finds no test of that name either where the changed module cannot be imported: every test notices that
        killed = ended.returncode in (1, 2) or (ended.returncode != 0 and not _can_import(tree, mutant))
    except subprocess.TimeoutExpired:
        return "killed"
    finally:
        file.write_bytes(original)
        listed.unlink()
    return "killed" if killed else "survived" if ended.returncode == 0 else "no result"


def _can_import(tree: Path, mutant: Mutant) -> bool:
    module = ".".join(("certigraph", *Path(mutant.file).with_suffix("").parts))
    command = [sys.executable, "-c", f"import {module}"]
    return not subprocess.run(command, cwd=tree, env=_environment(tree), capture_output=True, check=False).returncode


def _read_rows(out: Path) -> list[dict[str, str]]:
    with out.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _format_score(out: Path) -> str:
    lines = [
        "| place | mutants | killed | survived | not covered | no result | killed of all |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = _read_rows(out)
    for area in (*AREAS, "all"):
        counts = Counter(row["outcome"] for row in rows if area in (row["area"], "all"))
        total, killed = counts.total(), counts["killed"]
        if total:
            low, high = wilson_interval(killed, total)
            share = f"{killed / total:.1%} ({low:.1%} to {high:.1%})"
            others = " | ".join(str(counts[outcome]) for outcome in ("survived", "not covered", "no result"))
            lines.append(f"| {area} | {total} | {killed} | {others} | {share} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
