"""Full disks and unsuitable folders: the message has the fix, and written lines stay valid."""

import resource
import shutil
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from certigraph.adapters.protocols import Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.runtime.recorder import Recorder
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.endings import Fault
from certigraph.state.records import Usage
from certigraph.state.trajectory import Event


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limit the size of files inside the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run("sdp:paper", "blocksworld", "4-0", out=tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("size", [2_500, 4_000, 9_000, 40_000, 60_000])
def test_a_run_on_a_full_disk_says_how_to_go_on_and_does(size: int, keeps: bool, whole: Result, tmp_path: Path):
    try:
        with files_of_at_most(size):
            message = run(
                "sdp:paper", "blocksworld", "4-0", out=tmp_path, keep_prompts=keeps, on_error="ignore"
            ).message
    except Fault as fault:  # nor is there space for the footer
        message = str(fault)
    [folder] = tmp_path.iterdir()
    assert "no space left" in message and f"certigraph resume {folder}" in message
    read_trajectory(folder)
    result = resume(folder)
    assert (result.ending, result.certificates) == ("goal", whole.certificates)
    assert result.scores == whole.scores


def test_a_line_for_which_there_is_no_space_leaves_nothing_behind(whole: Result, tmp_path: Path):
    event = Event(t=0.0, superstep=1, node="act", usage=Usage(node="act"), update={"answer": "x" * 10_000})
    with Recorder(tmp_path / "trajectory.jsonl") as recorder:
        recorder.write(whole.trajectory.header)
        with files_of_at_most(5_000):
            for _ in range(2):
                with pytest.raises(Fault, match="no space left"):
                    recorder.write(event)
        assert read_trajectory(tmp_path).events == []
        recorder.write(event)
    assert read_trajectory(tmp_path).events == [event]


def test_an_evaluation_on_a_full_disk_names_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec

    from certigraph.evaluation.evaluation_results import evaluation_of

    dataset: dict[str, Any] = {"dataset": EvalDataset(), "config": EvalConfig(), "created": "2026-01-01T00:00:00Z"}
    log = EvalLog(eval=EvalSpec(task="blocksworld", model="none", **dataset), location=str(tmp_path / "a.eval"))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100, 100, 0))
    with pytest.raises(Fault, match=r"no space is left on the disk of .*: free space; .*--retry") as fault:
        evaluation_of(log)
    assert fault.value.boundary == "data"


# --- folders


def test_runs_do_not_go_to_the_root_of_the_file_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: pytest.fail("a folder was made"))
    for out in ("/", "//", "/tmp/..", Path("/")):
        with pytest.raises(Fault, match="is the root of the file system"):
            run("sdp:paper", "blocksworld", "4-0", out=out)


def test_runs_do_not_go_into_the_folder_of_another(whole: Result):
    with pytest.raises(Fault, match="is the folder of a run"):
        run("sdp:paper", "blocksworld", "4-0", out=whole.folder, context=Context())


def test_a_result_is_read_from_a_path_of_either_kind(whole: Result):
    assert Result(str(whole.folder)).trajectory == Result(whole.folder).trajectory == whole.trajectory
    assert Result(str(whole.folder)).folder == whole.folder
