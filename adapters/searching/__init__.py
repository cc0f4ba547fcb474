"""What the search benchmarks share: their world, the reading of questions, scores of answers, a scripted expert."""
