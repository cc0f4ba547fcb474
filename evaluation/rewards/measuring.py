"""What `certigraph rewards measure` does between its options and its tables."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import typer

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.embeddings import needed_encoder
from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.rewards.digests import digest_of
from certigraph.evaluation.rewards.keeping import append, read_lines
from certigraph.evaluation.rewards.predictors import encoder_of
from certigraph.evaluation.rewards.probing import probed
from certigraph.evaluation.rewards.rating import BENCHMARK, Piece, Rated, digest, rate_all, read_rated
from certigraph.evaluation.rewards.reporting import print_told, report
from certigraph.evaluation.rewards.speed import Speed, speed
from certigraph.evaluation.rewards.telling import telling
from certigraph.state.endings import Interrupted

ROWS, SPEEDS, PROBES = "rows.jsonl", "speeds.jsonl", "encoders.jsonl"

SLOW = 2.0
"""Seconds a pair beyond which a predictor is not timed again: its rows tell."""


def measure(
    methods: Sequence[Method],
    context: Context,
    out: Path,
    *,
    domains: Sequence[str] = (),
    limit: int = 0,
    at_once: int = 1,
    as_json: bool = False,
) -> int:
    """Rate what is left, write every file, and print the tables; exit status 1 where a pair was not rated.

    Raises:
        Interrupted: by Ctrl-C; what was rated is kept.
        Fault: there are no pairs, an encoder that is named is not here, or the model answers nothing usable.
    """
    benchmark: Any = load_benchmark(BENCHMARK, context.data)
    pairs = _chosen([task.id for domain in domains or ("",) for task in benchmark.tasks(domain)], limit)
    for name in filter(None, map(encoder_of, methods)):
        needed_encoder(name)
    out.mkdir(parents=True, exist_ok=True)
    try:
        with telling("rated", len(methods) * len(pairs), silent=as_json) as teller:
            failed = rate_all(
                methods,
                pairs,
                context,
                out / ROWS,
                at_once=at_once,
                told=lambda done, lost: teller(done, f"{lost} failed" if lost else ""),
            )
        wanted = {digest(Piece(method, pair, context)) for method in methods for pair in pairs}
        rows = list({row.digest: row for row in read_rated(out / ROWS) if row.digest in wanted}.values())
        if not as_json:
            typer.echo("timing predictors: a minute or two; what is rated is kept", err=True)
        speeds = _speeds(methods, pairs, context, rows, out / SPEEDS)
        found = probed(methods, [benchmark.pairs[pair] for pair in pairs], out / PROBES)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; the same command with --out {out} goes on") from None
    told = report(methods, benchmark, rows, failed, speeds, found, out)
    print_told(told, out, as_json=as_json)
    return 1 if failed else 0


def _chosen(pairs: Sequence[str], limit: int) -> list[str]:
    """The first pairs of each domain; 0: all."""
    domains: dict[str, list[str]] = {pair.partition("/")[0]: [] for pair in pairs}
    for pair in pairs:
        domains[pair.partition("/")[0]].append(pair)
    return [pair for some in domains.values() for pair in some[: limit or None]]


def _speeds(
    methods: Sequence[Method], pairs: Sequence[str], context: Context, rows: Sequence[Rated], path: Path
) -> list[Speed]:
    known = {one.digest: one for one in read_lines(path, Speed)}
    timed = {method.name: digest_of(method, context, "", "\n".join(pairs)) for method in methods}
    for method in methods:
        mine = [row.seconds for row in rows if row.predictor == method.name]
        if timed[method.name] in known or not mine or median(mine) > SLOW:
            continue
        if found := speed(method, pairs, context):
            known[timed[method.name]] = found.model_copy(update={"digest": timed[method.name]})
            append(path, known[timed[method.name]])
    return [known[one] for one in timed.values() if one in known]
