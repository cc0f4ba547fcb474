"""`certigraph sweep`: its forecast, its table, its JSON and its exit status."""

import json
from pathlib import Path

import pytest

from certigraph import cli
from certigraph.evaluation.sweep import prepare_sweep
from certigraph.evaluation.workers import WorkerOptions

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")
pytest.importorskip("statsmodels", reason="pip install 'certigraph[eval]'")


TEXT = """
model: simulated:act=0.1
benchmarks: [{name: blocksworld, tasks: [3-0, 4-0]}]
graphs: [sdp, react]
operators: [{}, {validate: always_pass}]
budget: {calls: 20}
"""


@pytest.fixture(autouse=True)
def _generated_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def call_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["sweep", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def file(folder: Path, text: str = TEXT) -> str:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_forecast_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    status, shown, _ = call_command(capsys, file(tmp_path), "--dry-run")
    assert status == 0
    assert "methods: sdp, sdp validate=always_pass, react\n" in shown
    assert "validate=always_pass is not run in react (no slot validate)" in shown
    assert "6 runs (3 methods x 2 tasks): 0 done" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]


def test_a_forecast_imports_no_operators_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "dry_run_operators.py").write_text(
        "open('imported', 'w').close()\nfrom certigraph import always_pass\n"
    )
    own = TEXT.replace("validate: always_pass", "validate: dry_run_operators:always_pass")
    status, shown, _ = call_command(capsys, file(tmp_path, own), "--dry-run")
    assert status == 0
    assert "methods: sdp, sdp validate=dry_run_operators:always_pass, react\n" in shown
    assert not (tmp_path / "imported").exists()


def test_what_goes_on_with_a_sweep_names_its_workers(tmp_path: Path):
    plan = prepare_sweep(Path(file(tmp_path)), tmp_path / "sweep", WorkerOptions(ray="local"))
    assert plan.resume_command.endswith(f"--ray local --out {tmp_path / 'sweep'}")


@pytest.mark.slow
def test_a_forecast_of_a_model_that_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("CERTIGRAPH_BASE_URL", raising=False)
    text = TEXT.replace("simulated:act=0.1", "openai:gpt-4o-mini") + "most: {usd: 12.5}\n"
    assert "at most 120 calls" in call_command(capsys, file(tmp_path, text), "--dry-run")[1]
    _, shown, _ = call_command(capsys, file(tmp_path, text), "--dry-run", "--json")
    forecast = json.loads(shown)
    assert forecast["most"] == {"usd": 12.5}
    assert [(one["name"], one["runs"], one["left"]) for one in forecast["benchmarks"]] == [("blocksworld", 6, 6)]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (TEXT + "modle: x\n", (), "modle"),
        (TEXT + "faults: timeut=0.1\n", ("--dry-run",), "timeut"),
        (TEXT.replace("[sdp, react]", "[sdpp]"), (), "sdpp"),
        (TEXT.replace("always_pass", "always_pas"), (), "always_pas"),
        (TEXT.replace("validate:", "validat:"), (), "validat="),
        (TEXT.replace("blocksworld", "blockswrld"), (), "blockswrld"),
        (TEXT.replace("4-0", "nope"), (), "nope"),
        (TEXT.replace("calls: 20", "cals: 20"), (), "no budget 'cals'"),
        (TEXT, ("--report-only",), "holds no sweep: start it with certigraph sweep"),
    ],
)
def test_unusable_arguments(
    text: str, arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    status, _, err = call_command(capsys, file(tmp_path, text), "--out", str(tmp_path / "out"), *arguments)
    assert status == 2
    assert message in err
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.slow
def test_the_command_runs_goes_on_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    given = file(tmp_path, TEXT + "most: {calls: 5}\n")
    status, shown, _ = call_command(capsys, given)
    assert (status, "calls are spent" in shown) == (1, True)
    assert call_command(capsys, file(tmp_path))[0] == 0
    status, shown, errors = call_command(capsys, given, "--report-only", "--json")
    found = json.loads(shown)
    assert (status, errors, found["left"], found["methods"]) == (0, "", 0, ["sdp", "sdp validate=always_pass", "react"])
