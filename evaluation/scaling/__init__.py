"""Runs spread over the processes and machines of a Ray cluster; what decides about them stays in one place."""
