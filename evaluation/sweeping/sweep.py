"""A sweep from Python: `certigraph sweep` without its command line."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.evaluation.comparing.spreading import Workers
from certigraph.evaluation.sweeping.driving import Prepared, carried_out, prepared
from certigraph.evaluation.sweeping.files import write_files
from certigraph.evaluation.sweeping.findings import SweepFindings, findings_of


def sweep(
    file: Path | str, out: Path | str | None = None, *, workers: Workers | None = None, silent: bool = True
) -> SweepFindings:
    """Carry out what a YAML file asks for, graphs x operators x benchmarks, and write the report.

    Started again it goes on where it stopped, whatever stopped it; what has ended is not run again.

    Args:
        file: see `evaluation/sweeping/asked.py` for what it may say.
        out: the sweep's folder; the file's name without its ending where none is given.
        workers: processes of a Ray cluster that carry the runs out; None: this process does.
        silent: show no progress on stderr.

    Returns:
        What was found; `findings.left` runs have no ending, and `findings.stopped` says why.

    Raises:
        UnknownName: a name in the file is unknown; the message lists the known ones.
        Fault: the file is unusable, the folder was begun with another one, or another process is at work in it.
        Interrupted: by Ctrl-C; the message has the command that goes on.
    """
    given = prepared(Path(file), Path(out) if out is not None else None, workers)
    return reported(given, carried_out(given, silent=silent))


def reported(given: Prepared, stopped: Sequence[str] = ()) -> SweepFindings:
    """Write the report of a sweep as far as it has come, and return what was found.

    Writes `sweep.html`, `sweep.json`, `sweep.csv`, `effects.csv`, `rows.csv`, `scores.png` and `scores.svg`, and in
    each benchmark's folder the report of its comparison.
    """
    from certigraph.evaluation.sweeping.page import write_page

    findings = findings_of(given, stopped)
    write_files(findings)
    write_page(given, findings)
    return findings
