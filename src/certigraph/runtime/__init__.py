"""One run: finding and building graphs, driving, recording, checkpoints, resuming, live view and report."""
