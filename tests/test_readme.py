"""README and the pages of docs/: every Python block runs, every `# -> value` is right, commands exist, links lead on.

A comment `# -> LITERAL` after an expression states its value. Every other comment explains. The tutorials, whose blocks
are files and shell sessions, are run by test_docs.py.
"""

import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from helpers.files.readme_blocks import check_block
from helpers.servers.scripted_endpoint import Call, scripted_endpoint
from typer.testing import CliRunner

from certigraph import RunFailedWarning, ScriptedModelWarning, cli
from certigraph.cli import app

ROOT = Path(__file__).parent.parent
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
}
OF_OTHER_PAGE = re.compile(r"  # [\w-]+\.md, ")
"""In a block that takes files of another page: test_docs.py runs it."""
PYTHON = {
    name: blocks
    for name, text in PAGES.items()
    if not name.startswith("docs/tutorial-")
    and (blocks := [b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if not OF_OTHER_PAGE.search(b)])
}
FILE = re.compile(r"# (\w+\.py)\n")
COMMANDS = {
    re.split(r"\s+#", line)[0].strip(): name
    for name, text in PAGES.items()
    for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("certigraph")
}
"""Commands of all pages, without their comments, and the last page that has each."""

RUN = (
    "certigraph list",
    "certigraph graph sdp",
    "certigraph prompts sdp blocksworld --stable",
    "certigraph published scienceworld",
    "certigraph init support",
    "certigraph run sdp blocksworld --task 4-0",
    "certigraph run step blocksworld",
    "certigraph run sdp blocksworld --task 6-2 --model simulated --swap validate=always_pass",
    "certigraph run statefactory rewardprediction",
    "certigraph run sdp web --task museum/1",
    "certigraph run tdp hotpotqa:interactive",
    "certigraph run mcts blocksworld --swap propose=listed",
    "certigraph eval sdp blocksworld --limit 5",
)
"""Commands that this file runs. The others need a key, data, recorded runs, a JVM, or minutes."""

TOOL_CALLS: list[Call] = [("look_up_order", {"number": 17}), ("refund_order", {"number": 17, "amount": 49.9})]


def test_a_wrong_value_in_an_example_is_found() -> None:
    assert check_block("x = 1\nx + 1  # -> 2\nx  # explains", {}) == 1
    with pytest.raises(AssertionError, match="the document says 3"):
        check_block("1 + 1  # -> 3", {})


@pytest.mark.slow
@pytest.mark.parametrize("page", PYTHON)
def test_python_examples_run_and_state_true_values(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in ((match[1], block) for block in PYTHON[page] if (match := FILE.match(block))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, Path(name).stem, raising=False)
    names: dict[str, Any] = {}
    with warnings.catch_warnings(), scripted_endpoint("Order 17 is refunded.", TOOL_CALLS, "Refunded.") as endpoint:
        for name in ("CERTIGRAPH_BASE_URL", "OPENAI_BASE_URL"):  # in place of OpenAI's, for agents with tools
            monkeypatch.setenv(name, endpoint.url)
        for kind in (RunFailedWarning, ScriptedModelWarning):  # no example fails, none leaves its model unnamed
            warnings.simplefilter("error", kind)
        compared = sum(check_block(block, names) for block in PYTHON[page])
    assert compared == sum(block.count("# -> ") for block in PYTHON[page])
    acts = any(
        name in block
        for block in PYTHON[page]
        for name in ("certigraph.agent(", "agent = create_agent(", "agent = create_deep_agent(")
    )
    assert endpoint.made == (len(TOOL_CALLS) if acts else 0)


def test_first_example_is_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_block(PYTHON["docs/python.md"][0], {}) >= 5


def test_commands_that_are_run_stand_in_a_page() -> None:
    assert set(RUN) <= set(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("command", RUN)
def test_commands_run(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    with pytest.raises(SystemExit) as stop:
        cli.main(shlex.split(command)[1:])
    assert stop.value.code in (0, None), capsys.readouterr().err


@pytest.mark.slow
def test_commands_and_their_options_exist() -> None:
    shown: dict[tuple[str, ...], str] = {}
    for command, page in COMMANDS.items():
        words = shlex.split(command)[1:]
        name = tuple(words[:2] if words[0] in ("study", "rewards") else words[:1])
        if name not in shown:
            done = CliRunner().invoke(app, [*name, "--help"], env={"COLUMNS": "200"})
            assert done.exit_code == 0, f"{page}: {command}"
            shown[name] = done.output
        missing = [word for word in words if word.startswith("--") and word not in shown[name]]
        assert not missing, f"{page}: {command}: no option {missing}"


def test_every_link_leads_to_a_file() -> None:
    for name, text in PAGES.items():
        for target in re.findall(r"\]\(([^)#\s]+)\)", text):
            assert "://" in target or (ROOT / name).parent.joinpath(target).exists(), f"{name}: {target}"
