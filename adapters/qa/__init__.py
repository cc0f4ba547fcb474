"""What the benchmarks that ask multi-hop questions share."""
