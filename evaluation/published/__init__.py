"""Published results as data: one JSON file for each paper, their reader, and the comparison with runs."""
