"""TravelPlanner's named configurations: what goes beyond the SDP paper, and the tool world of TDP."""

from certigraph.state.endings import UnknownName
from certigraph.state.records import Record


class Config(Record):
    """What goes beyond the paper, each switchable, and whether the world is one of tools."""

    lookahead: bool = True
    """Show only options that leave an affordable way to the end, cuisines still owed included."""
    rollback: bool = True
    """Replan may return to an earlier certified state."""
    reorder: bool = True
    """Replan may visit the cities in another order."""
    tools: bool = False
    """No reference information is at hand: the agent looks up, keeps notes, and has the plan made from them."""


CONFIGS = {
    "": Config(),
    "paper": Config(lookahead=False, rollback=False, reorder=False),
    "lookahead": Config(rollback=False, reorder=False),
    "rollback": Config(lookahead=False, reorder=False),
    "reorder": Config(lookahead=False, rollback=False),
    "tools": Config(tools=True),
}
"""`travelplanner:paper` is SDP's own behaviour, `travelplanner:tools` TDP's setting."""


def config_of(name: str) -> Config:
    """The configuration of that name. Raises UnknownName, which lists the known ones."""
    if name not in CONFIGS:
        raise UnknownName(f"travelplanner has no configuration {name!r}; known: {', '.join(filter(None, CONFIGS))}")
    return CONFIGS[name]
