"""The anatomy of runs: what recorded trajectories say about where methods succeed, stall and spend (SDP, 4.1, 4.2)."""
