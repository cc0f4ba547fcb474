"""Runs whose steps come to findings: one certified though a source says otherwise, one that a policy let pass."""

from pathlib import Path

from certigraph.runtime.report import write_report
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.records import Finding, Verdict
from helpers.worlds.scripted_benchmark import Script

FOUND = Finding(
    about="p1",
    text="Two gyms lie near the park.",
    sources=("https://gyms.example/list", "http://park.example/map"),
    against=("https://old.example/list",),
    dispute="there are three",
)
GUESSED = Finding(about="p2", text="The cheaper one costs 20.", sources=("https://blog.example/20",))

REFUSED = Verdict(depth=0, reason="a blog alone", finding=GUESSED)
PASSED = Verdict(depth=1, reason="still a blog alone", finding=GUESSED, forced="force_pass")


def run_with_findings(out: Path, *last: Verdict, found: Finding = FOUND, **script: object) -> Result:
    """A run of four predicates: the first certified, the second refused once and let pass, then as `last` says."""
    return run("sdp", finding_script(*last, found=found, **script), out=out)


def finding_script(*last: Verdict, found: Finding = FOUND, **script: object) -> Script:
    """The benchmark behind it."""
    return Script(plan=4, verdicts=[Verdict(depth=1, finding=found), REFUSED, PASSED, *last], **script)  # type: ignore[arg-type]


GOAL_PASSED = (Verdict(depth=1), PASSED.model_copy(update={"finding": None}))


def report_page(result: Result, out: Path) -> str:
    """Its report."""
    return write_report(result.trajectory, out / "report.html").read_text(encoding="utf-8")
