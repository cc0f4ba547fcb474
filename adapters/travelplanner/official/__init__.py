"""The official scorer: eight commonsense and five hard constraints, quirks included."""
