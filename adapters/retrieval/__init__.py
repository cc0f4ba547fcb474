"""Retrieval of passages: BM25 in memory and on disk, sentence vectors, combinations, and search servers."""
