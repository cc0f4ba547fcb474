"""Tests of `evaluation.workers`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.processes.children import child_environment
from helpers.sample_runs.worker_evaluations import (
    OURS,
    TASKS,
    assert_all_there,
    await_ended,
    busy_worker,
    evaluate_with_workers,
    evaluation_table,
    figures,
    resumed_runs,
    start_driver,
    worker_pids,
)
from helpers.servers.postgres_server import VARIABLE, Server
from slow_endpoint import slow_endpoint

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.evaluation import ray_cluster as cluster
from certigraph.evaluation.evaluate import evaluate, evaluate_retry
from certigraph.evaluation.evaluation_results import Evaluation, read_evaluation
from certigraph.evaluation.jobs import RunJob, RunStorage
from certigraph.evaluation.ray_cluster import LOCAL_ENVIRONMENT, RayWorker
from certigraph.evaluation.worker_processes import ProcessWorker
from certigraph.evaluation.workers import (
    HERE,
    WorkerOptions,
    WorkerPool,
    active_pool,
    check_worker_models,
    run_slots,
    worker_pool,
)
from certigraph.runtime.registry import load_settings
from certigraph.runtime.result import BenchmarkRow
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Usage
from certigraph.state.trajectory import Footer

# Evaluations by worker processes, on a Ray cluster of this machine and without Ray: the table of one process, whichever
# workers are killed on the way.

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
if not find_spec("ray"):
    pytest.skip("pip install 'certigraph[ray]'", allow_module_level=True)


PRICES = '["loopback"]\nread = 10\nwritten = 10\n'


@pytest.fixture(scope="module")
def _cluster_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cluster whose workers know a slow endpoint and its price."""
    with slow_endpoint(0.02) as url, pytest.MonkeyPatch.context() as patch:
        prices = tmp_path_factory.mktemp("prices") / "prices.toml"
        prices.write_text(PRICES)
        cache = str(tmp_path_factory.mktemp("cache"))
        for name in OURS:
            patch.delenv(name, raising=False)
        known = {"XDG_CACHE_HOME": cache, "CERTIGRAPH_BASE_URL": url, "CERTIGRAPH_PRICES": str(prices)}
        for name, value in {**known, **cluster.LOCAL_ENVIRONMENT}.items():
            patch.setenv(name, value)
        import ray  # which reads how far it listens

        ray.init(address="local", num_cpus=2, **cluster.QUIET_OPTIONS)
        yield
        ray.shutdown()


PROCESSES, CLUSTER = WorkerOptions(2), WorkerOptions(2, "local")

BOTH = pytest.mark.parametrize("workers", [PROCESSES, CLUSTER], ids=["processes", "ray"])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("_cluster_of_two")
@BOTH
@pytest.mark.parametrize(
    ("model", "budget"), [("simulated:act=0.1,seed=2", []), ("openai:loopback", ["usd=0.1"])], ids=["script", "priced"]
)
def test_the_table_is_that_of_one_process(model: str, budget: list[str], workers: WorkerOptions, tmp_path: Path):
    fields: dict[str, Any] = {"model": model, "ids": TASKS[::2], "trials": 2, "budget": budget, "quiet": True}
    here = evaluate("sdp", "blocksworld", out=tmp_path / "here", **fields)
    spread = evaluate(
        "sdp", "blocksworld", out=tmp_path / "spread", workers=workers.processes, ray=workers.ray, **fields
    )
    assert evaluation_table(spread) == evaluation_table(here)
    assert figures(spread) == figures(here)
    assert len(spread.rows) == 10
    assert {row.run for row in spread.rows} == {path.parent.name for path in (tmp_path / "spread").glob("*/*.jsonl")}
    assert all((row.footer.usage.usd > 0) == bool(budget) for row in spread.rows)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("_cluster_of_two")
@BOTH
def test_killed_workers_cost_no_more_than_the_step_under_way(
    workers: WorkerOptions, undisturbed: Evaluation, site: Path, tmp_path: Path
):
    out = tmp_path / "out"
    done = killed_meanwhile(out, site, workers)
    assert_all_there(done, undisturbed, out)
    assert 0 < len(resumed_runs(out)) <= 4


def killed_meanwhile(out: Path, site: Path, workers: WorkerOptions) -> Evaluation:
    """An evaluation on two workers, both of which are killed once three runs have ended."""
    watch = f"""
import os, signal
from pathlib import Path
from helpers.sample_runs.worker_evaluations import await_ended, worker_pids
await_ended(Path({str(out)!r}), 3)
for pid in worker_pids(Path({str(site)!r})):
    os.kill(pid, signal.SIGKILL)
"""
    watching = subprocess.Popen([sys.executable, "-c", watch], env=child_environment())
    done = evaluate_with_workers(out, workers=workers.processes, ray=workers.ray)
    assert watching.wait(30) == 0
    return done


@pytest.mark.long
@pytest.mark.slow
def test_a_run_that_takes_every_worker_down_is_an_error_and_alone(site: Path, tmp_path: Path):
    given: dict[str, Any] = {"ids": TASKS[:6], "swaps": ["validate=scaling_operators:deadly"], "out": tmp_path / "out"}
    done = evaluate("sdp", "blocksworld", workers=2, max_samples=4, quiet=True, **given)
    assert done.endings == {"goal": 5, "error:environment": 1}
    assert [(row.id, "3 workers were lost" in row.footer.message) for row in done.failed] == [("3-1", True)]
    assert len(worker_pids(site)) == 3
    (site / "harmless").touch()
    again = evaluate_retry(done.log, workers=2, quiet=True)
    assert again.endings == {"goal": 6}
    assert {row.run for row in again.rows} == {row.run for row in done.rows}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("_cluster_of_two")
def test_runs_may_lie_in_a_store_named_by_a_url(site: Path, tmp_path: Path):
    store = tmp_path / "store"
    given: dict[str, Any] = {"ids": TASKS[:3], "swaps": ["validate=scaling_operators:deadly"], "quiet": True}
    done = evaluate("sdp", "blocksworld", out=store.as_uri(), ray="local", workers=1, **given)
    assert done.endings == {"goal": 2, "error:environment": 1}
    left = {row.run for row in done.failed}
    assert {path.parent.name for path in store.glob("*/trajectory.jsonl")} == {row.run for row in done.rows} - left
    (site / "harmless").touch()

    again = evaluate_retry(done.log, quiet=True)  # in this process, on the machine where the lost run had come so far

    assert (again.endings, again.figures["solved"]) == ({"goal": 3}, 1)
    assert {path.parent.name for path in store.glob("*/trajectory.jsonl")} == {row.run for row in again.rows}
    assert left < {row.run for row in again.rows}
    assert len(list(store.glob("*.eval"))) == 2
    scratch = Path(os.environ["XDG_CACHE_HOME"]) / "certigraph" / "runs"
    assert list(scratch.glob("*/*/")) == []


# What an evaluation by workers outlives: its own death, Ctrl-C, and a worker and Postgres killed at once.

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")
pytest.importorskip("ray", reason="pip install 'certigraph[ray]'")


@pytest.mark.long
@pytest.mark.slow
def test_a_worker_and_the_postgres_server_are_killed_and_nothing_certified_is_lost(
    server: Server, undisturbed: Evaluation, site: Path, tmp_path: Path
):
    out = tmp_path / "out"
    evaluating = start_driver(out, site, CLUSTER, env={VARIABLE: server.url})
    await_ended(out, 2, evaluating)
    os.kill(busy_worker(site, out), signal.SIGKILL)
    server.kill()
    time.sleep(0.7)
    server.start()
    assert evaluating.wait(120) == 0
    assert {path.read_text().partition(" ")[2] for path in (site / "pids").iterdir()} == {"127.0.0.1"}

    [log] = out.glob("*.eval")
    done = read_evaluation(log)
    assert_all_there(done, undisturbed, out)
    assert 0 < len(resumed_runs(out)) <= 4
    assert {load_settings(out / row.run).checkpoints for row in done.rows} == {"postgres"}
    names = [row.run for row in done.rows]
    assert server.sql("SELECT count(*) FROM checkpoints WHERE thread_id = ANY(%s)", names) == [(0,)]  # all are over


@pytest.mark.long
@pytest.mark.slow
@BOTH
def test_a_killed_driver_takes_its_workers_along_and_a_retry_finishes(
    workers: WorkerOptions, undisturbed: Evaluation, site: Path, tmp_path: Path
):
    out = tmp_path / "out"
    evaluating = start_driver(out, site, workers)
    await_ended(out, 3, evaluating)
    evaluating.kill()
    assert evaluating.wait() == -signal.SIGKILL
    [log] = out.glob("*.eval")
    await_gone(site)
    assert_all_there(evaluate_retry(log, quiet=True), undisturbed, out)  # by workers or, as here, without any


@pytest.mark.long
@pytest.mark.slow
def test_an_interrupted_driver_leaves_nothing_running_and_says_how_to_go_on(site: Path, tmp_path: Path):
    out = tmp_path / "out"
    evaluating = start_driver(out, site, PROCESSES, stdout=subprocess.PIPE, start_new_session=True)
    await_ended(out, 1, evaluating)
    os.killpg(evaluating.pid, signal.SIGINT)  # as a terminal does
    printed, _ = evaluating.communicate(timeout=60)
    assert "certigraph eval --retry" in printed
    assert printed.rstrip().endswith("--workers 2")
    await_gone(site)


def await_gone(site: Path) -> None:
    """Wait for the workers to end by themselves."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in worker_pids(site)):
        time.sleep(0.1)
    assert [pid for pid in worker_pids(site) if Path(f"/proc/{pid}").exists()] == []


# How jobs are handed to workers, with actors that live in this process in place of Ray's.

PAUSE = 0.002


class RayError(Exception):
    pass


class RayTaskError(RayError):
    cause = ValueError("no such slot")


class Actor:
    """A worker that does what the names of tasks say; its death takes along all that it was at."""

    def __init__(self, ray: "Ray") -> None:
        self.ray, self.dead, self.busy = ray, asyncio.Event(), 0
        self.ready = SimpleNamespace(remote=lambda: self._answer(self._ready()))
        self.done = SimpleNamespace(remote=lambda job: self._answer(self._done(job)))

    async def _answer(self, work: Any) -> Any:
        work, dead = asyncio.ensure_future(work), asyncio.ensure_future(self.dead.wait())
        await asyncio.wait([work, dead], return_when=asyncio.FIRST_COMPLETED)
        dead.cancel()
        if self.dead.is_set():
            work.cancel()
            raise RayError("the actor died")
        return work.result()

    async def _ready(self) -> None:
        if self.ray.lacks:
            raise RayError(f"created with an error:\n{self.ray.lacks}")

    async def _done(self, job: RunJob) -> BenchmarkRow:
        self.ray.tries[job.task] += 1
        self.busy += 1
        self.ray.most = max(self.ray.most, self.busy)
        self.ray.did[id(self)] += 1
        await asyncio.sleep(PAUSE)
        self.busy -= 1
        if job.task.startswith("fatal"):
            self.dead.set()
        if job.task.startswith("wrong"):
            raise RayTaskError("traceback")
        return BenchmarkRow(id=job.task, footer=Footer(ending="goal", usage=Usage(node="all")))


class Ray:
    """What a pool asks of the module."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, lacks: str = "") -> None:
        self.lacks, self.most = lacks, 0
        self.tries: Counter[str] = Counter()
        self.did: Counter[int] = Counter()
        self.actors: list[Actor] = []

    def remote(self, _: type) -> Any:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._actor))

    def _actor(self, *_: Any) -> Actor:
        self.actors.append(Actor(self))
        return self.actors[-1]

    def kill(self, actor: Actor) -> None:
        actor.dead.set()

    def cancel(self, waiting: Awaitable[Any]) -> None:
        pass


def job(task: str, **given: Any) -> RunJob:
    plain = {"graph": "sdp", "operators": {}, "benchmark": "blocksworld", "context": Context(), "out": "o", "run": "r"}
    return RunJob.model_validate({**plain, "task": task, **given})


def rows(ray: Any, *tasks: str, workers: int = 2, at_once: int = 3) -> list[BenchmarkRow]:
    async def all_done() -> list[BenchmarkRow]:
        pool = WorkerPool(partial(RayWorker, ray), workers, at_once)
        try:
            return await asyncio.gather(*(pool.done(job(task)) for task in tasks))
        finally:
            pool.close()

    return asyncio.run(all_done())


def test_every_worker_does_its_share_and_no_more_at_once_than_fit():
    ray = Ray()
    tasks = [str(number) for number in range(24)]
    assert [row.id for row in rows(ray, *tasks)] == tasks
    assert ray.most == 3
    assert sorted(ray.did.values()) == [12, 12]
    assert all(actor.dead.is_set() for actor in ray.actors)


def test_a_job_that_takes_workers_down_fails_and_takes_no_other_along():
    ray = Ray()
    done = rows(ray, "a", "b", "fatal", "c", "d", "fatal too", "e", "f")
    endings = {row.id: row.ending for row in done}
    fatal = dict.fromkeys(("fatal", "fatal too"), "error:environment")
    assert endings == {**dict.fromkeys("abcdef", "goal"), **fatal}
    assert ray.tries["fatal"] == ray.tries["fatal too"] == 3
    assert "3 workers were lost" in next(row.footer.message for row in done if row.id == "fatal")


def test_an_error_in_a_worker_is_the_jobs_own_and_costs_no_worker():
    ray = Ray()
    wrong, right = rows(ray, "wrong", "right", workers=1)
    assert (wrong.ending, wrong.footer.message, right.ending) == ("error:operator", "no such slot", "goal")
    assert len(ray.actors) == 1


def test_workers_that_cannot_come_up_are_reported_and_not_waited_for():
    ray = Ray("ModuleNotFoundError: No module named 'certigraph'")
    with pytest.raises(Fault, match="no worker process starts: ModuleNotFoundError: No module named 'certigraph'"):
        rows(ray, "a", "b", "c", workers=2)
    assert len(ray.actors) <= 2 * 3


def test_what_workers_cannot_ask_is_refused_and_without_a_cluster_there_are_none():
    check_worker_models("openai:gpt-4o", "scripted:expert", "local", "openai:org/name", "simulated:act=0.2,seed=3")
    with pytest.raises(UnknownName, match="worker processes cannot reach inspect's model 'anthropic/claude'"):
        check_worker_models("scripted:expert", "anthropic/claude")
    with run_slots(HERE, "local", None, usual=4) as at_once:
        assert (at_once, active_pool()) == (4, None)


def test_a_cluster_of_this_machine_is_kept_to_it_before_ray_is_imported(monkeypatch: pytest.MonkeyPatch):
    found: dict[str, str] = {}

    def library(*_: str) -> None:
        found.update(os.environ)
        raise Fault("environment", "seen")

    for name in LOCAL_ENVIRONMENT:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(cluster, "import_extra", library)
    with pytest.raises(Fault, match="seen"), worker_pool(WorkerOptions(ray="local"), ""):
        pass
    assert LOCAL_ENVIRONMENT.items() <= found.items()


# Worker processes of this machine.


def test_a_process_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "certigraph.py").write_text("raise ImportError('broken here')")
    monkeypatch.syspath_prepend(tmp_path)  # the process looks for modules where this one does
    worker = ProcessWorker()
    assert "broken here" in asyncio.run(worker.failure())
    assert asyncio.run(worker.done(job("4-0"))) is None


@pytest.mark.long
@pytest.mark.slow
def test_a_process_executes_jobs_until_it_is_stopped(tmp_path: Path):
    async def work(worker: ProcessWorker) -> list[BenchmarkRow | None]:
        assert await worker.failure() == ""
        jobs = [job("3-0", out=str(tmp_path)), job("3-1", graph="nothing", out=str(tmp_path), run="s")]
        done = await asyncio.gather(*map(worker.done, jobs))
        waiting = asyncio.create_task(worker.done(job("3-2", out=str(tmp_path), run="t")))
        await asyncio.sleep(0)
        worker.stop()
        return [*done, await waiting, await worker.done(jobs[0])]

    right, wrong, stopped, late = asyncio.run(work(ProcessWorker()))
    assert right and wrong
    assert (right.ending, right.run) == ("goal", "r")
    assert (wrong.ending, "unknown graph 'nothing'" in wrong.footer.message) == ("error:data", True)
    assert (stopped, late) == (None, None)


def test_a_job_is_the_same_after_the_way_to_a_process():
    given = job("4-0", context=Context(budget={"calls": 3, "usd": 0.5}, trial=2), operators={"gate": {"upr": 0.1}})
    assert RunJob.model_validate(json.loads(json.dumps(given.model_dump(mode="json")))) == given


def test_checkpoints_are_where_the_machine_that_hands_jobs_out_has_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_POSTGRES", raising=False)
    assert job("4-0").to_portable().context.checkpoints == ""
    monkeypatch.setenv("CERTIGRAPH_POSTGRES", "postgresql://somewhere")
    assert job("4-0").to_portable().context.checkpoints == "postgres"


def test_a_job_means_the_same_wherever_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    context = Context(data="data", chat=ScriptedChat(responder=lambda prompt, schema: {}))
    there = job("4-0", context=context, out="runs").to_portable()
    assert (there.out, there.context.data, there.context.cache) == (f"{tmp_path}/runs", f"{tmp_path}/data", None)
    assert job("4-0", out="s3://bucket/runs").to_portable().out == "s3://bucket/runs"
    assert there.context.chat is None


def test_a_cluster_that_does_not_answer_is_reported_at_once():
    with (
        pytest.raises(Fault, match=r"nothing answers at 127\.0\.0\.1:1"),
        worker_pool(WorkerOptions(ray="127.0.0.1:1"), "scripted:expert"),
    ):
        pass


# Runs in a folder or in a store named by a URL: whichever machine looks finds a run as far as any has come.


@pytest.mark.usefixtures("_cache")
@pytest.mark.parametrize("place", [str, Path.as_uri])
def test_a_run_is_found_again_in_a_folder_and_in_a_store(
    place: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if place is not str:
        pytest.importorskip("fsspec", reason="pip install 'certigraph[ray]'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "out"
    out.mkdir()
    shared = RunStorage(place(out))
    shared.fetch_run("r").mkdir(parents=True)
    (shared.fetch_run("r") / "trajectory.jsonl").write_text("{}\n")
    shared.fetch_file("journal.jsonl").write_text("noted")
    for name in ("r", "journal.jsonl"):
        shared.upload(name)
    assert (out / "r" / "trajectory.jsonl").read_text() == "{}\n"
    again = RunStorage(place(out))
    assert (again.fetch_run("r") / "trajectory.jsonl").read_text() == "{}\n"
    assert again.fetch_file("journal.jsonl").read_text() == "noted"
    assert not again.fetch_file("other.jsonl").exists()


@pytest.fixture
def store(tmp_path: Path) -> RunStorage:
    pytest.importorskip("fsspec", reason="pip install 'certigraph[ray]'")
    (tmp_path / "store" / "r").mkdir(parents=True)
    return RunStorage((tmp_path / "store").as_uri())


@pytest.fixture
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def lines(folder: Path, count: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trajectory.jsonl").write_text("{}\n" * count)
    return folder


def length(folder: Path) -> int:
    return (folder / "trajectory.jsonl").read_text().count("\n")


@pytest.mark.usefixtures("_cache")
@pytest.mark.parametrize(("here", "there", "found"), [(3, 5, 5), (5, 3, 5), (4, 4, 4)])
def test_a_run_is_taken_where_it_has_come_furthest(
    here: int, there: int, found: int, store: RunStorage, tmp_path: Path
):
    lines(tmp_path / "store" / "r", there)
    (lines(store.folder / "r", here) / "checkpoints.sqlite").touch()
    assert length(store.fetch_run("r")) == found
    assert (store.fetch_run("r") / "checkpoints.sqlite").exists() == (here >= there)  # they belong to their trajectory


@pytest.mark.usefixtures("_cache")
@pytest.mark.parametrize(("here", "there", "kept"), [(5, 5, False), (3, 5, False), (5, 3, True), (5, 0, True)])
def test_only_what_the_store_has_is_forgotten(here: int, there: int, kept: bool, store: RunStorage, tmp_path: Path):
    lines(tmp_path / "store" / "r", there)
    folder = lines(store.folder / "r", here)
    store.drop_copy("r")
    assert folder.exists() == kept


@pytest.mark.usefixtures("_cache")
def test_a_folder_is_not_a_copy_and_is_kept(tmp_path: Path):
    folder = lines(tmp_path / "r", 2)
    RunStorage(str(tmp_path)).drop_copy("r")
    assert length(folder) == 2
