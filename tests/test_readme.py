"""README's examples: every Python block runs, every `# -> value` is right, and the start's commands run.

A comment `# -> LITERAL` after an expression states its value. Every other comment explains.
"""

import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest
from readme_blocks import check_block
from scripted_endpoint import Call, scripted_endpoint
from typer.testing import CliRunner

from certigraph import RunFailedWarning, ScriptedModelWarning, cli
from certigraph.cli import app

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
START = re.search(r"## Start.*?```bash\n\. .venv/bin/activate\n(.*?)```", README, re.DOTALL)

NOT_RUN = {
    "certigraph run sdp travelplanner --model openai:gpt-4o-mini": "needs a key",
    "certigraph run sdp scienceworld --task boil:0": "starts a JVM; tests/adapters/scienceworld/test_runs.py",
    "certigraph resume runs/20261121-…": "needs a stopped run; tests/cli/test_runs.py resumes one",
    "certigraph delete runs/20261121-…": "needs a run; tests/cli/test_runs.py deletes one",
    "certigraph eval sdp travelplanner --data DIR --also-config paper": "needs TravelPlanner's data",
    "certigraph score travelplanner --plans FILE --data DIR": "needs TravelPlanner's data and plans",
    "certigraph sweep sweep.yaml --out sweep": "needs a file; tests/cli/test_sweep.py writes one",
    "certigraph study cgdp --on musique --limit 10 --model simulated --out study": "takes minutes; test_studying.py",
    "certigraph run react_reward textworld": "compiles a game; tests/runtime/test_episodes.py",
    "certigraph index wiki.jsonl.gz": "needs a corpus; tests/cli/test_index.py writes one",
    'certigraph ask "How old is the Eiffel Tower?"': "needs a key and the web; tests/cli/test_ask.py",
    "certigraph ablate sdp blocksworld --limit 20 --trials 2": "takes minutes; test_comparison_summary.py",
    "certigraph anatomy ablation --out anatomy": "needs the ablation; tests/evaluation/test_anatomy.py",
    "certigraph export ablation --to parquet --out exported": "needs the ablation; tests/evaluation/test_export.py",
    "certigraph figures runs --out figures": "needs runs of STEP; tests/evaluation/analyses/test_step.py",
    "certigraph compare sdp step react --on blocksworld --model simulated --out cmp": "a minute; test_comparing.py",
    "certigraph compare step bare=step --swap bare:planner=none --on blocksworld --model simulated --out bare": (
        "a minute; test_comparing.py"
    ),
}
"""Commands of the start block that this file does not run, each with what it needs."""

TOOL_CALLS: list[Call] = [("look_up_order", {"number": 17}), ("refund_order", {"number": 17, "amount": 49.9})]


def test_a_wrong_value_in_an_example_is_found() -> None:
    assert check_block("x = 1\nx + 1  # -> 2\nx  # explains", {}) == 1
    with pytest.raises(AssertionError, match="the document says 3"):
        check_block("1 + 1  # -> 3", {})


@pytest.mark.slow
def test_python_examples_run_and_state_true_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    names: dict[str, Any] = {}
    with warnings.catch_warnings(), scripted_endpoint("Order 17 is refunded.", TOOL_CALLS, "Refunded.") as endpoint:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", endpoint.url)  # in place of OpenAI's, for the agent with tools
        for kind in (RunFailedWarning, ScriptedModelWarning):  # no example fails, none leaves its model unnamed
            warnings.simplefilter("error", kind)
        compared = sum(check_block(block, names) for block in PYTHON)
    assert compared == sum(block.count("# -> ") for block in PYTHON) >= 8
    assert endpoint.made == len(TOOL_CALLS)


def test_first_example_is_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_block(PYTHON[0], {}) >= 5


def start_commands() -> list[str]:
    """The command lines of the start block without their comments."""
    assert START is not None
    return [re.split(r"\s+#", line)[0].strip() for line in START[1].splitlines() if line.startswith("certigraph")]


def test_commands_that_are_not_run_are_still_in_the_readme() -> None:
    assert set(NOT_RUN) <= set(start_commands())


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in start_commands() if command not in NOT_RUN])
def test_every_other_command_of_the_start_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    with pytest.raises(SystemExit) as stop:
        cli.main(shlex.split(command)[1:])
    assert stop.value.code in (0, None), capsys.readouterr().err


def test_commands_exist() -> None:
    commands = set(re.findall(r"^certigraph (\w+)", README, re.MULTILINE))
    assert commands
    for command in commands:
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
