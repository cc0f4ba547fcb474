"""The fifth boundary, configuration and environment: a malformed value is one line, never a traceback."""

from pathlib import Path

import pytest

from certigraph import cli

HOSTILE = ["~nosuchuser", "/no/such/folder", "\ud800", "http://[::1", "=", "x" * 5_000, "a\nb"]

COMMANDS = {
    "CERTIGRAPH_DATA": ("run", "sdp", "blocksworld", "--task", "3-0"),
    "CERTIGRAPH_WEB_CACHE": ("run", "sdp", "web"),
    "CERTIGRAPH_WEB_ALLOW": ("run", "sdp", "web"),
    "CERTIGRAPH_SEARCH": ("ask", "How old is it?", "--model", "scripted:first"),
    "CERTIGRAPH_INDEX": ("run", "sdp", "hotpotqa"),
    "CERTIGRAPH_REPOS": ("run", "sdp", "swe_qa"),
    "CERTIGRAPH_PRICES": ("run", "sdp", "blocksworld", "--model", "openai:x"),
    "CERTIGRAPH_GGUF": ("run", "sdp", "blocksworld", "--model", "local"),
    "CERTIGRAPH_BASE_URL": ("run", "sdp", "blocksworld", "--model", "openai:x"),
    "CERTIGRAPH_OPENSEARCH_URL": ("run", "sdp", "blocksworld"),
    "CERTIGRAPH_POSTGRES": ("run", "sdp", "blocksworld", "--task", "3-0"),
    "SSL_CERT_FILE": ("run", "sdp", "web"),
    "OPENAI_API_KEY": ("run", "sdp", "blocksworld", "--model", "openai:x"),
}


@pytest.mark.slow  # many runs, and the clients of endpoints
@pytest.mark.parametrize("variable", COMMANDS)
def test_a_malformed_value_is_one_line(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    for name in COMMANDS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CERTIGRAPH_WEB_CACHE", str(tmp_path / "cache"))
    for value in HOSTILE:
        try:
            monkeypatch.setenv(variable, value)
        except (UnicodeEncodeError, ValueError):
            continue  # no environment can hold it
        with pytest.raises(SystemExit) as stop:
            cli.main([*COMMANDS[variable], "--out", str(tmp_path / "runs")])
        captured = capsys.readouterr()
        assert stop.value.code in (0, 1, 2)
        assert "Traceback" not in captured.err
        if stop.value.code == 2:
            assert len(captured.err.strip().splitlines()) <= 2
