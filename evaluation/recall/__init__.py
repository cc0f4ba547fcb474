"""How much of the evidence retrievers find: passage recall over the union of a question file's paragraphs."""
