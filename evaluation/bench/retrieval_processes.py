"""Jobs in fresh processes, so that no engine pays for what another one loaded."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from certigraph.evaluation.bench.retrieval_workers import Memory, memory
from certigraph.state.endings import Fault


def in_processes(number: int, job: Callable[..., tuple[Any, object]], *arguments: Any) -> list[tuple[Any, Memory]]:
    """What a job returns in each of several processes at once, and the memory each holds when all have done it.

    Raises:
        Fault: a process died.
    """
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(number)]
    children = [context.Process(target=_work, args=(theirs, job, arguments)) for _, theirs in pairs]
    for child, (_, theirs) in zip(children, pairs, strict=True):
        child.start()
        theirs.close()  # ours to close too, or a death would go unnoticed
    try:
        results = [ours.recv() for ours, _ in pairs]
        held = [_asked(ours) for ours, _ in pairs]
        return list(zip(results, held, strict=True))
    except EOFError as error:
        raise Fault("operator", f"a process of {job.__name__}{arguments[:2]} died; what it said is above") from error
    finally:
        for (ours, _), child in zip(pairs, children, strict=True):
            ours.close()
            child.join()


def _asked(ours: Connection) -> Memory:
    ours.send("memory")
    held: Memory = ours.recv()
    return held


def _work(theirs: Connection, job: Callable[..., tuple[Any, object]], arguments: tuple[Any, ...]) -> None:
    result, kept = job(*arguments)
    theirs.send(result)
    theirs.recv()
    theirs.send(memory())
    theirs.poll(None)  # until all have answered: what `kept` maps is shared as long as both live
    del kept
