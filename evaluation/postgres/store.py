"""The store of lessons on a Postgres server: every run's own part of one table, or one that a memory's name opens."""

import asyncio
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from langgraph.store.base import BaseStore, ListNamespacesOp, MatchCondition, Op, Result, SearchOp
from langgraph.store.postgres.aio import AsyncPostgresStore

from certigraph.evaluation.postgres.lease import Lease
from certigraph.evaluation.postgres.owners import Connection
from certigraph.state.endings import Fault

Namespace = tuple[str, ...]


def place_of(thread: str, shared: str = "") -> Namespace:
    """The part of the table that holds a run's lessons, or a shared memory's. A digest is safe where a name is not."""
    name = shared or thread
    return "memory" if shared else "run", sha256(name.encode(errors="surrogatepass")).hexdigest()


class PostgresLessons(BaseStore):
    """LangGraph's store, under a place of its own, on the connection of a lease: nobody writes who lost his run."""

    def __init__(self, lease: Lease, place: Namespace) -> None:
        self._lease, self._place, self._loop = lease, place, asyncio.get_running_loop()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """As `abatch`, from a worker thread.

        Raises:
            Fault: it was called on the event loop, which it would wait for.
        """
        if _running() is self._loop:
            raise Fault("operator", "a node that blocks the event loop asked the store: await store.asearch(...)")
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self._loop).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of operations, in their order."""
        inward = [self._inward(op) for op in ops]

        async def answered(connection: Connection) -> list[Result]:
            return await AsyncPostgresStore(connection).abatch(inward)

        return [self._outward(result) for result in await self._lease.use(answered)]

    def _inward(self, op: Op) -> Any:
        if isinstance(op, ListNamespacesOp):
            asked = [_under(self._place, condition) for condition in op.match_conditions or ()]
            here = MatchCondition("prefix", self._place)
            depth = op.max_depth and op.max_depth + len(self._place)
            return op._replace(match_conditions=(here, *asked), max_depth=depth)
        if isinstance(op, SearchOp):
            return op._replace(namespace_prefix=(*self._place, *op.namespace_prefix))
        return op._replace(namespace=(*self._place, *op.namespace))

    def _outward(self, result: Any) -> Any:
        if isinstance(result, list):
            return [self._outward(inner) for inner in result]
        if isinstance(result, tuple):
            return result[len(self._place) :]
        if result is not None:
            result.namespace = self._outward(result.namespace)
        return result


def _under(place: Namespace, condition: MatchCondition) -> MatchCondition:
    path: Any = (*place, *condition.path) if condition.match_type == "prefix" else condition.path
    return MatchCondition(condition.match_type, path)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
