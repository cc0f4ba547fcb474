"""Finding passages: one protocol over BM25 in memory and on disk, vectors, their mixture, and a search server."""
