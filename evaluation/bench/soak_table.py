"""The figures of a soak, for people."""

from rich.console import Group
from rich.table import Table

from certigraph.evaluation.bench.soak_records import Overhead, Soak


def table(done: Soak) -> Group:
    """What ran, what it cost, and what it left."""
    head = (
        f"{done.ended:,} of {done.episodes:,} episodes ended, {done.lost} lost, {done.at_once} at once, "
        f"{done.seconds:,.0f} s; the endpoint took {done.delay:g} s a reply; "
        f"{done.busy:.0%} of a processor, load {done.load[0]:.1f}"
    )
    return Group(
        head, "", _endings(done), "", _windows(done), "", _overheads(done), "", _held(done), "", _verdict(done)
    )


def _endings(done: Soak) -> Table:
    shown = Table("graph", "runs", "endings", box=None)
    for graph, counts in done.endings.items():
        told = ", ".join(f"{ending} {n:,}" for ending, n in counts.items())
        shown.add_row(graph, f"{sum(counts.values()):,}", told)
    return shown


def _windows(done: Soak) -> Table:
    shown = Table("episodes", "CPU ms each", "memory MB", box=None)
    for window in done.windows:
        shown.add_row(f"{window.first:,} to {window.end:,}", f"{window.cpu_each:.1f}", f"{window.memory:.1f}")
    return shown


def _overheads(done: Soak) -> Table:
    shown = Table("overhead, ms", "p50", "p99", "most", box=None)
    for name, overhead in (("of a model call", done.call), ("of a run", done.run)):
        shown.add_row(name, *_milliseconds(overhead))
    return shown


def _milliseconds(overhead: Overhead) -> list[str]:
    return [f"{ms:,.0f}" for ms in (overhead.p50, overhead.p99, overhead.most)]


def _held(done: Soak) -> Table:
    shown = Table("", "memory MB", "most MB", "open files", "threads", "live worlds", box=None)
    for name, held in (("at the start", done.start), ("at the end", done.end)):
        counts = map(str, (held.files, held.threads, held.worlds))
        shown.add_row(name, f"{held.memory:.1f}", f"{held.peak:.1f}", *counts)
    return shown


def _verdict(done: Soak) -> str:
    return (
        f"After the first tenth memory grew by {done.grown:+.1%} (at most {done.most_grown:+.1%}); "
        f"the last episodes cost {done.flat:.2f} of the first.\n"
        f"Trajectories take {done.trajectories:,.1f} MB, all else {done.rest:,.1f} MB."
    )
