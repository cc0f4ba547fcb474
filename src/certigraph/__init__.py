"""certigraph: long-horizon language agents whose progress can be checked."""
