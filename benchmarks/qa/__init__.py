"""Parts that the benchmarks of multi-hop questions share: questions, corpora, operators, scores, a scripted expert."""
