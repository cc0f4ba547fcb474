"""A comparison whose runs keep their checkpoints on a server leaves none there."""

from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")
pytest.importorskip("statsmodels", reason="pip install 'certigraph[eval]'")

from postgres_server import Server

from certigraph.adapters.protocols import Context
from certigraph.evaluation.compare import Choice, carry_out, order
from certigraph.evaluation.comparison import methods_from, rows_of


@pytest.mark.slow
def test_checkpoints_of_runs_that_are_over_are_deleted(used: Server, tmp_path: Path):
    given = order(methods_from(["sdp"]), "blocksworld", Choice(["3-0"]), Context())
    carry_out(given, tmp_path, silent=True)
    [row] = rows_of(given.plan, tmp_path)
    assert used.sql("SELECT count(*) FROM checkpoints WHERE thread_id = %s", row.run) == [(0,)]
