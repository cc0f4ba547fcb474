"""Every analysis by the name of its table: pure functions of the frames."""

from collections.abc import Callable

import pandas as pd

from certigraph.evaluation.anatomy import costs, failures, progress, verdicts
from certigraph.evaluation.anatomy.frames import Frames

Analysis = Callable[[Frames], pd.DataFrame]

ANALYSES: dict[str, Analysis] = {
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

Tables = dict[str, pd.DataFrame]


def analyse(frames: Frames) -> Tables:
    """All analyses. Each line has `method`, `n` rows over so many `tasks`, `value` and its 95 % interval, low to high.

    A method has no line where there is nothing to tell: of graphs without predicates, and of no runs.
    """
    return {name: analysis(frames) for name, analysis in ANALYSES.items()}
