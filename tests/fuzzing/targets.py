"""All that is fuzzed: a line for each reader of text, in files by who writes what they read."""

from fuzzing import (
    actions,
    commands,
    kept,
    models,
    observations,
    own_files,
    pages,
    questions,
    services,
    told,
    trajectories,
    world_files,
)
from fuzzing.target import by_name

TARGETS = by_name(
    target
    for module in (
        *(models, actions, observations),
        *(trajectories, told, own_files, kept, questions, world_files),
        *(pages, services, commands),
    )
    for target in module.TARGETS
)
