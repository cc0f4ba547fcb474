"""Every analysis by the name of its table: pure functions of the frames."""

from collections.abc import Callable

import pandas as pd

from certigraph.evaluation.anatomy import costs, failures, progress, verdicts
from certigraph.evaluation.anatomy.frames import Frames, without_faults

Analysis = Callable[[Frames], pd.DataFrame]

ANALYSES: dict[str, Analysis] = {
    "faults": failures.faults,
    "solved": costs.solved,
    "cascade_rate": progress.cascade_rate,
    "depths": progress.depths,
    "retried": progress.retried,
    "replan_curve": progress.replan_curve,
    "compression": progress.compression,
    "credit": progress.credit,
    "certified_part": failures.certified_part,
    "stopped_kinds": failures.stopped_kinds,
    "stopped_places": failures.stopped_places,
    "failure_causes": failures.failure_causes,
    "calibration": verdicts.calibration,
    "score_by_horizon": costs.score_by_horizon,
    "node_costs": costs.node_costs,
    "certified_costs": costs.certified_costs,
}

OF_ALL = frozenset({"faults", "failure_causes", "node_costs", "certified_costs"})
"""The analyses that are over all runs; the others leave out those in which the world or its data failed."""

Tables = dict[str, pd.DataFrame]


def analyse(frames: Frames) -> Tables:
    """All analyses. Each line has `method`, `n` rows over so many `tasks`, `value` and its 95 % interval, low to high.

    A method has no line where there is nothing to tell: of graphs without predicates, and of no runs.
    """
    counted = without_faults(frames)
    return {name: analysis(frames if name in OF_ALL else counted) for name, analysis in ANALYSES.items()}
