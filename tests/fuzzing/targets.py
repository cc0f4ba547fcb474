"""All that is fuzzed: a line for each reader of text, in files by who writes what they read."""

from fuzzing import (
    actions,
    commands,
    models,
    observations,
    own_files,
    pages,
    questions,
    run_outputs,
    services,
    stored_files,
    trajectories,
    world_files,
)
from fuzzing.target import by_name

TARGETS = by_name(
    target
    for module in (
        *(models, actions, observations),
        *(trajectories, run_outputs, own_files, stored_files, questions, world_files),
        *(pages, services, commands),
    )
    for target in module.TARGETS
)
