"""TextWorld: text adventures that are generated from a seed."""
