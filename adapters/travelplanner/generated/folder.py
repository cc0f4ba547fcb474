"""Where the generated world is that stands in for absent data."""

from pathlib import Path

from certigraph.adapters.caching import cache_folder
from certigraph.adapters.travelplanner.data.splits import SPLIT
from certigraph.adapters.travelplanner.generated.generator import generate_world


def generated_folder() -> Path:
    """The folder of a small world: same seed, same bytes, written once."""
    folder = cache_folder() / "travelplanner-generated-0"
    if not (folder / f"{SPLIT}.jsonl").is_file():
        generate_world(folder, seed=0)
    return folder
