"""Files: of the repository, of benchmarks' data, of packages, and of runs."""
