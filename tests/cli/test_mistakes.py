"""Typical mistakes at the command line: each is answered by one line that names the fix, also in a minimal install."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from certigraph import cli
from certigraph.adapters.models import clients


class Mistake(NamedTuple):
    """A command with a mistake in it, and what the answer has to name: the fix."""

    command: str
    fix: str


GENERATED = "generated sample data"
"""The line that says before a run that no real data was found; it is not part of the answer to a mistake."""

MISTAKES = [
    Mistake("", "certigraph list"),
    Mistake("rum sdp blocksworld", "certigraph --help"),
    Mistake("run sdp", "BENCHMARK"),
    Mistake("run spd blocksworld", "did you mean sdp? `certigraph list graphs` shows all"),
    Mistake("run blocksworld sdp", "run GRAPH blocksworld"),
    Mistake("run sdp blocksworld --limits steps=1", "--budget steps=60"),
    Mistake("run sdp blocksworld --swap planner=none", "step has planner"),
    Mistake("run sdp blocksworld --limit 3", "--task"),
    Mistake("run sdp bloksworld", "did you mean blocksworld? `certigraph list benchmarks`"),
    Mistake("run sdp blocksworld:hard", "use blocksworld"),
    Mistake("run sdp blocksworld --mdoel local", "--model"),
    Mistake("run sdp blocksworld --task 99999", "tower-30"),
    Mistake("run sdp blocksworld --model opnai:gpt-4o-mini", "did you mean openai:gpt-4o-mini?"),
    Mistake("run sdp blocksworld --model openai:gpt-4o-mini", "export OPENAI_API_KEY="),
    Mistake("run sdp blocksworld --model openai:gpt-5?efort=high", "openai:NAME?effort=medium"),
    Mistake("run sdp blocksworld --model local:qwen-7b", "local:qwen-0.5b"),
    Mistake("run sdp blocksworld --model simulated:act", "act="),
    Mistake("run sdp blocksworld --role critic=local", "planner, executor, validator"),
    Mistake("run sdp blocksworld --window many", "integer"),
    Mistake("run sdp blocksworld --budget steps=many", "by default steps=60"),
    Mistake("run sdp blocksworld --budget call=3", "did you mean calls"),
    Mistake("run sdp blocksworld --budget 20", "steps=120"),
    Mistake("sweep nowhere.yaml", "graphs: [sdp] and benchmarks: [NAME]"),
    Mistake("compare sdp --on", "see certigraph compare --help"),
    Mistake("ablate tdp blocksworld", "decompose"),
    Mistake("compare sdp react --swap validate=always_pass", "METHOD:SLOT=OPERATOR for sdp, react"),
    Mistake("run sdp blocksworld --swap validate", "SLOT=OPERATOR"),
    Mistake("run sdp blocksworld --swap capped:depth=1", "write validate=capped:depth=1"),
    Mistake("run sdp blocksworld --swap replan=always_pass", "an operator of validate"),
    Mistake("run sdp blocksworld --swap validate=always_pas", "did you mean always_pass"),
    Mistake("run sdp blocksworld --swap validate=capped:dept=1", "capped takes validate, depth"),
    Mistake("run sdp blocksworld --data nowhere", "correct --data DIR"),
    Mistake("run sdp alfworld", "CERTIGRAPH_DATA=DIR"),
    Mistake("run sdp worlds.py:World", "worlds:World"),
    Mistake("run sdp worlds:World", "a module that Python can import from the current directory"),
    Mistake("resume nowhere --answer [1", "begins as JSON and is none: close its brackets"),
    Mistake("resume nowhere", "nowhere, which does not exist: give the folder of a run"),
    Mistake("index nowhere.jsonl", ".jsonl"),
    Mistake("ask Why?", "--search generated"),
    Mistake("export runs/1 --to csv", "Invalid value for '--to': 'csv' is not one of 'atif', 'inspect', 'parquet'"),
    Mistake("study cdgp", "certigraph study --help"),
    Mistake("run sdp travelplanner:papers", "paper"),
    Mistake("run sdp ask", 'certigraph ask "QUESTION"'),
    Mistake("run sdp blocksworld --swap validate=capped:depth=-1", "validate=capped:depth=1"),
    Mistake("run sdp blocksworld --budget steps=0", "steps=0"),
    Mistake("eval sdp blocksworld --retry x.eval", "certigraph eval --retry x.eval"),
    Mistake("eval", "certigraph eval sdp blocksworld"),
    Mistake("compare sdp x.eval", "certigraph compare x.eval OTHER.eval"),
    Mistake("ablate react blocksworld", "--swap SLOT=OPERATOR"),
    Mistake("anatomy nowhere", "certigraph run"),
    Mistake("score blocksworld --plans x", "travelplanner, hotpotqa and musique"),
    Mistake("score travelplanner --plans none.jsonl", "none.jsonl"),
    Mistake("run pbai blocksworld", "blocksworld takes none"),
]

WITHOUT_EXTRAS = [
    Mistake("run sdp scienceworld", "pip install 'certigraph[scienceworld]'"),
    Mistake("run sdp webshop", "pip install 'certigraph[webshop]'"),
    Mistake("run ircot hotpotqa:corpus", "pip install 'certigraph[retrieval]'"),
    Mistake("run sdp blocksworld --model local", "pip install 'certigraph[local]'"),
    Mistake("run sdp blocksworld --model anthropic:claude-sonnet-4-5", "pip install 'certigraph[langchain]'"),
    Mistake("eval sdp blocksworld", "pip install 'certigraph[eval]'"),
]


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command in an empty folder, without data, keys and addresses, and return what it answered."""
    monkeypatch.chdir(tmp_path)
    for name in ("CERTIGRAPH_DATA", "CERTIGRAPH_BASE_URL", "OPENAI_API_KEY", "SERPER_API_KEY", "ALFWORLD_DATA"):
        monkeypatch.delenv(name, raising=False)

    def call(command: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stopped:
            cli.main(command.split())
        return int(stopped.value.code or 0), capsys.readouterr().err

    return call


EXTRA_PACKAGES = (
    *("inspect_ai", "scipy", "statsmodels", "pandas", "matplotlib", "pyarrow", "nltk", "rouge_score", "numpy"),
    *("scienceworld", "py4j", "textworld", "alfworld", "rapidfuzz", "agentdojo", "langchain", "xllamacpp", "ray"),
    *("tantivy", "sentence_transformers", "torch", "transformers", "peft", "trafilatura", "protego", "playwright"),
)
"""Modules that only extras of certigraph install."""


@pytest.fixture
def minimal_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the packages of the extras, as if nothing but certigraph itself had been installed."""
    monkeypatch.setattr(clients, "_SERVERS", {})  # an earlier test may have started one
    for name in {*EXTRA_PACKAGES, *(name for name in sys.modules if name.partition(".")[0] in EXTRA_PACKAGES)}:
        monkeypatch.setitem(sys.modules, name, None)


def check(answered: tuple[int, str], mistake: Mistake) -> None:
    status, message = answered
    lines = [line for line in message.splitlines() if GENERATED not in line]
    assert (status, len(lines)) == (2, 1), message
    assert mistake.fix in lines[0]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.command)
def test_a_mistake_is_answered_by_one_line_with_the_fix(answer: Any, mistake: Mistake) -> None:
    check(answer(mistake.command), mistake)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("minimal_install")
@pytest.mark.parametrize("mistake", WITHOUT_EXTRAS, ids=lambda mistake: mistake.command)
def test_without_extras_the_command_that_installs_one_is_named(answer: Any, mistake: Mistake) -> None:
    check(answer(mistake.command), mistake)
