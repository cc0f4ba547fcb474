"""What a sweep leaves for other programs: `sweep.json`, `sweep.csv`, `effects.csv` and `rows.csv`."""

import json
from collections.abc import Iterator
from typing import Any

from certigraph.evaluation.comparing.files import line_of, write_csv
from certigraph.evaluation.sweeping.findings import Effect, Found, SweepFindings


def plain(findings: SweepFindings) -> dict[str, Any]:
    """Everything as one JSON object; folders as seen from the sweep's."""
    return {
        "model": findings.model,
        "methods": list(findings.methods),
        "partial": bool(findings.left),
        "left": findings.left,
        "left_out": list(findings.left_out),
        "stopped": list(findings.stopped),
        "spent": findings.spent.model_dump(),
        "benchmarks": [_benchmark(found) for found in findings.found],
        "effects": [_effect(effect) for effect in findings.effects],
    }


def write_files(findings: SweepFindings) -> None:
    """`sweep.json` has everything; as CSV `sweep` a line a method and benchmark, `rows` one a run with its folder."""
    text = json.dumps(plain(findings), indent=1, ensure_ascii=False)
    (findings.out / "sweep.json").write_text(text, encoding="utf-8")
    write_csv(findings.out / "sweep.csv", [*_methods(findings)])
    write_csv(findings.out / "effects.csv", [_effect(effect) for effect in findings.effects])
    write_csv(findings.out / "rows.csv", [line for found in findings.found for line in _runs(found)])


def _benchmark(found: Found) -> dict[str, Any]:
    comparison = found.comparison.model_dump(mode="json", exclude={"rows"})
    runs = [{**row.model_dump(mode="json"), "folder": found.folders[row.run]} for row in found.comparison.rows]
    return {"name": found.title, "runs": found.runs, "left": found.left, "page": found.page, **comparison, "rows": runs}


def _effect(effect: Effect) -> dict[str, Any]:
    found = effect.difference
    return {"benchmark": effect.benchmark, **found.model_dump(mode="json"), "words": found.words}


def _methods(findings: SweepFindings) -> Iterator[dict[str, Any]]:
    for found in findings.found:
        for summary in found.comparison.methods:
            yield {"benchmark": found.title, **line_of(summary.model_dump(mode="json"))}


def _runs(found: Found) -> Iterator[dict[str, Any]]:
    for row in found.comparison.rows:
        yield {"benchmark": found.title, **line_of(row.model_dump(mode="json")), "folder": found.folders[row.run]}
