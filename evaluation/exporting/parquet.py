"""Transitions as a Parquet table for offline RL: `table[table.certified]` holds the certified (s, a, k, s')."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from certigraph.evaluation.exporting.transitions import rows_of
from certigraph.state.trajectory import Trajectory

AT_ONCE = 5_000
"""Rows of a row group: what is in memory at a time, whatever the number of runs."""

TEXT, TEXTS, COUNT, FLAG = pa.string(), pa.list_(pa.string()), pa.int64(), pa.bool_()

SCHEMA = pa.schema(
    {
        "run_id": TEXT,
        "benchmark": TEXT,
        "sample_id": TEXT,
        "method": TEXT,
        "graph": TEXT,
        "model": TEXT,
        "trial": COUNT,
        "episode": COUNT,
        "subtask": TEXT,
        "t": COUNT,
        "node": TEXT,
        "state": TEXTS,
        "obs": TEXT,
        "target": TEXT,
        "thought": TEXT,
        "action": TEXT,
        "logprob": pa.float64(),
        "next_obs": TEXT,
        "accepted": FLAG,
        "reward": pa.float64(),
        "certified": FLAG,
        "forced": TEXT,
        "r_cert": COUNT,
        "predicates": TEXTS,
        "restores": COUNT,
        "reason": TEXT,
        "finding": TEXT,
        "sources": TEXTS,
        "against": TEXTS,
        "next_state": TEXTS,
        "done": FLAG,
        "truncated": FLAG,
        "ending": TEXT,
        "calls": COUNT,
        "input_tokens": COUNT,
        "output_tokens": COUNT,
        "cached_tokens": COUNT,
        "usd": pa.float64(),
        "seconds": pa.float64(),
    }
)
"""The columns.

method: the graph with what is swapped in it, as in `sdp validate=always_pass`; graph: without. model: the one of the
    run; roles that another one had are in the other formats.
state, next_state: the predicates certified before and after, in order; a return to an earlier state (`restores`, its
    index) takes the later ones away again.
episode: from 1; a sub-task that a graph of its own worked on is one, and `subtask` its id in the task graph.
t: the action's number in its episode, from 0. trial: the run's number among repetitions of its task.
r_cert: the reward for certified progress, the cascade depth k: how many predicates the action discharged; 0 where
    Validate refused; null where nothing was validated. predicates: the k of them.
forced: the policy that let the target pass, which certifies nothing: r_cert is 0 and the state stays as it was.
finding, sources, against: what the action was judged to have found, the URLs that bear it out, and those that do not.
reward: the world's own.
done, truncated: of an episode's last row one of the two is true, of the others none. done: the world was done after it
    or the goal was certified; truncated: the episode stopped without either. A run may go on in a world that was done.
logprob: of the behaviour policy; not recorded, so null.
calls, tokens, usd, seconds: what choosing, taking and judging this action cost, planning not included.
"""


def to_parquet(trajectories: Iterable[Trajectory], path: Path) -> Path:
    """Write a row for every action that the world answered; runs without one have no row.

    Args:
        trajectories: read one after the other, so that they need not fit in memory together.
        path: the file, which is replaced.
    """
    rows = (row for trajectory in trajectories for row in rows_of(trajectory))
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while group := list(_next(rows)):
            writer.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
    return path


def _next(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return islice(rows, AT_ONCE)
