"""Text metrics that compare an answer with a reference (CGDP appendix F.2)."""
