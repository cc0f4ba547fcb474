"""Tools of the user as a world: loading, calling, effects that happen once, and operators."""
