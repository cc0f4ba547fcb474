"""Which worlds are read by rules: by the benchmark or the recording's domain, whatever its configuration."""

import pytest

from certigraph.adapters.rewards import FACTORS, factors_of, needed_factors
from certigraph.state.records import Fault, Task


@pytest.mark.parametrize("world", FACTORS)
def test_every_configuration_of_a_world_is_read_by_its_rules(world):
    plain, configured = (factors_of(Task(benchmark=name, id="x")) for name in (world, f"{world}:drafted"))
    recorded = factors_of(Task(benchmark="rewardprediction", id="x", constants={"domain": world}))
    assert plain is configured is recorded is not None


def test_other_worlds_are_read_by_a_model():
    task = Task(benchmark="hotpotqa:corpus", id="x")
    assert factors_of(task) is None
    with pytest.raises(Fault, match=r"reads hotpotqa, only .*use extract=prompted_state"):
        needed_factors(task)
