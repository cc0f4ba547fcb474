"""MuSiQue-Answerable (Trivedi et al., 2022): questions over chains of two to four paragraphs."""
