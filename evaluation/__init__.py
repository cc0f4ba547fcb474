"""Running and judging: the driver, trajectories on disk, reports, benchmarks under inspect_ai."""
