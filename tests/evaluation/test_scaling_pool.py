"""How jobs are handed to workers, with actors that live in this process in place of Ray's."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from certigraph.adapters.protocols import Context
from certigraph.evaluation import workers as cluster
from certigraph.evaluation.workers import ALONE, Job, Pool, active_pool, own_models, pooled, working
from certigraph.runtime.result import Row
from certigraph.state.records import Fault, UnknownName, Usage
from certigraph.state.trajectory import Footer

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

    async def _done(self, job: Job) -> Row:
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
        return Row(id=job.task, footer=Footer(ending="goal", usage=Usage(node="all")))


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

    def _actor(self, _: Any) -> Actor:
        self.actors.append(Actor(self))
        return self.actors[-1]

    def kill(self, actor: Actor) -> None:
        actor.dead.set()

    def cancel(self, asked: Awaitable[Any]) -> None:
        pass


def job(task: str, **given: Any) -> Job:
    plain = {"graph": "sdp", "operators": {}, "benchmark": "blocksworld", "context": Context(), "out": "o", "run": "r"}
    return Job.model_validate({**plain, "task": task, **given})


def rows(ray: Any, *tasks: str, workers: int = 2, at_once: int = 3) -> list[Row]:
    async def all_done() -> list[Row]:
        pool = Pool(ray, workers, at_once)
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


def test_workers_that_cannot_come_up_are_told_of_and_not_waited_for():
    ray = Ray("ModuleNotFoundError: No module named 'certigraph'")
    with pytest.raises(Fault, match="no Ray worker comes up: ModuleNotFoundError: No module named 'certigraph'"):
        rows(ray, "a", "b", "c", workers=2)
    assert len(ray.actors) <= 2 * 3


def test_what_workers_cannot_ask_is_refused_and_without_a_cluster_there_are_none():
    own_models("openai:gpt-4o", "scripted:expert", "local", "openai:org/name", "simulated:act=0.2,seed=3")
    with pytest.raises(UnknownName, match="--ray asks models from its workers, where inspect's 'anthropic/claude'"):
        own_models("scripted:expert", "anthropic/claude")
    with pytest.raises(UnknownName, match="--ray local"), working(None, "local", 2, None):
        pass
    with working(None, "local", None, None, usual=4) as at_once:
        assert (at_once, active_pool()) == (4, None)


def test_without_ray_the_command_that_brings_it_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(Fault, match=r"--ray needs ray, missing here: pip install 'certigraph\[ray\]'"),
        pooled("local", ""),
    ):
        pass


def test_a_cluster_of_this_machine_is_kept_to_it_before_ray_is_imported(monkeypatch: pytest.MonkeyPatch):
    found: dict[str, str] = {}

    def library(*_: str) -> None:
        found.update(os.environ)
        raise Fault("environment", "seen")

    for name in ALONE:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(cluster, "library", library)
    with pytest.raises(Fault, match="seen"), pooled("local", ""):
        pass
    assert ALONE.items() <= found.items()


def test_checkpoints_are_where_the_machine_that_hands_jobs_out_has_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_POSTGRES", raising=False)
    assert job("4-0").anywhere().context.checkpoints == ""
    monkeypatch.setenv("CERTIGRAPH_POSTGRES", "postgresql://somewhere")
    assert job("4-0").anywhere().context.checkpoints == "postgres"


def test_a_job_means_the_same_wherever_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    there = job("4-0", context=Context(data="data", chat=object()), out="runs").anywhere()
    assert (there.out, there.context.data, there.context.cache) == (f"{tmp_path}/runs", f"{tmp_path}/data", None)
    assert job("4-0", out="s3://bucket/runs").anywhere().out == "s3://bucket/runs"
    assert there.context.chat is None


def test_a_cluster_that_does_not_answer_is_told_at_once():
    with pytest.raises(Fault, match=r"nothing answers at 127\.0\.0\.1:1"), pooled("127.0.0.1:1", "scripted:expert"):
        pass
