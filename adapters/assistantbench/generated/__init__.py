"""Invented web sites with questions, and a server for them on loopback: the open web where there is none."""
