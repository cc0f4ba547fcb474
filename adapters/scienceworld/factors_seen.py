"""What ScienceWorld's answers tell: added to what is known of rooms, things in hand, focus, power and wires."""

import re
from collections.abc import Callable, Container

Known = dict[str, dict[str, str]]
"""Identity -> attribute -> value. What has happened to a thing stays known: a thing once taken was in hand."""

AGENT, MAP, FOCUS, HEAT, RECIPE = "agent", "map", "focus", "temperature", "recipe"

HEATS = (20, 50, 80, 100, 150, 200, 300, 500, 800, 1200, 1700, 2300)
"""Degrees Celsius that warming goes past."""

_ROOM = re.compile(r"This (?:room|outside location) is called the (.+?)\.")
_POWERED = re.compile(r"\ban? ([\w ]{1,60}?), which is (?:turned )?(on|off)\b", re.IGNORECASE)
_RUNS = {"on": "running", "activated": "running", "off": "idle", "deactivated": "idle"}


def seen(known: Known, action: str, observation: str, sought: Container[str]) -> None:
    """Add what a step tells; of the things that a look around lists, only those sought and those known already."""
    for form, tell in _TOLD:
        for told in form.finditer(observation):
            tell(known, action, told)
    if room := _ROOM.match(observation):
        _entered(known, room[1])
        for device, power in _POWERED.findall(observation):
            if device in known or device in sought:
                of(known, device)["power"] = _RUNS[power]


def of(known: Known, identity: str) -> dict[str, str]:
    """The attributes of a thing, which is known from now on."""
    return known.setdefault(identity, {})


def label(plane: str) -> str:
    """What an inclined plane is told apart by: `inclined plane with a steel surface` -> `steel plane`."""
    return f"{plane.removesuffix(' surface').split(' with a ')[-1].split()[-1].lower()} plane"


def _entered(known: Known, room: str) -> None:
    of(known, AGENT)["location"] = room
    of(known, room)["visit"] = "visited"
    of(known, MAP)[room] = "visited"
    for has in known.values():
        if has.get("holder") == AGENT:
            has["room"] = room


def _moved(known: Known, action: str, told: re.Match[str]) -> None:
    thing, place = of(known, told[1]), told[2]
    if place == "inventory":
        thing.update(hand="taken", holder=AGENT)
        return
    thing.pop("holder", None)
    thing.update(place=place)
    of(known, place)["contents"] = "filled"
    if plane := re.search(r" to (inclined plane.*)", action):
        of(known, label(plane[1]))["block"] = "placed"


def _focused(known: Known, action: str, told: re.Match[str]) -> None:
    of(known, told[1])["focus"] = "focused"
    stage, past = re.search(r"in the (\w+) stage", action), of(known, FOCUS)
    past[f"{len(past) + 1}"] = f"{told[1]} {stage[1]}" if stage else told[1]


def _opened(known: Known, action: str, told: re.Match[str]) -> None:
    if room := re.fullmatch(r"open door to (.+)", action):
        of(known, room[1])["door"] = "open"
        of(known, MAP)[f"door to {room[1]}"] = "open"
    elif told[1] != "door":
        of(known, told[1])["lid"] = "open"


def _connected(known: Known, action: str, told: re.Match[str]) -> None:
    """Which kind of thing each end leads to: which of the wires makes no difference."""
    for end, thing, other in ((told[1], told[2], told[4]), (told[3], told[4], told[2])):
        if not thing.endswith("wire"):
            of(known, thing)[end] = "wire" if other.endswith("wire") else other


def _measured(known: Known, action: str, told: re.Match[str]) -> None:
    degrees = int(told[1])
    of(known, "thermometer")["reading"] = "measured"
    of(known, HEAT).update({f"past {heat}": "reached" for heat in HEATS if degrees > heat}, degrees=told[1])


def _slid(known: Known, action: str, told: re.Match[str]) -> None:
    tenths = int(told[2] or 100) // 10
    of(known, label(told[1])).update({f"{tenth} tenths": "passed" for tenth in range(1, tenths + 1)})


def _poured(known: Known, action: str, told: re.Match[str]) -> None:
    of(known, told[1])["poured"] = "wet"
    for paint in re.findall(r"cup containing ([\w-]+ paint)", action.partition(" in ")[0]):
        of(known, paint)["mixture"] = "poured"


Tell = Callable[[Known, str, "re.Match[str]"], None]
_TOLD: tuple[tuple[re.Pattern[str], Tell], ...] = (
    (re.compile(r"^You move (?:through .+? )?to the (.+?)\."), lambda known, _, told: _entered(known, told[1])),
    (re.compile(r"You move the (.+?) to the (.+?)\."), _moved),
    (re.compile(r"You focus on the (.+?)\."), _focused),
    (re.compile(r"^The (.+?) is (?:now|already) open\."), _opened),
    (
        re.compile(r"^The (.+?) is now (activated|deactivated)\."),
        lambda known, _, told: of(known, told[1]).update(power=_RUNS[told[2]]),
    ),
    (re.compile(r"^(\w+(?: \d)?) on (.+?) is now connected to (\w+(?: \d)?) on (.+)"), _connected),
    (re.compile(r"measures a temperature of (-?\d+) degrees"), _measured),
    (re.compile(r"^an (inclined plane.*?), with: .*? (?:approximately (\d+)% down|at the bottom of)"), _slid),
    (re.compile(r"mix to produce (.+?)\."), lambda known, _, told: of(known, told[1]).update(mixture="made")),
    (re.compile(r"^You pour the contents of the .+? into the (.+?)\."), _poured),
    (
        re.compile(r"To make .+?, you need to mix (.+?)\."),
        lambda known, _, told: of(known, RECIPE).update(reading="known", parts=told[1]),
    ),
    (re.compile(r"^a substance called (.+)$"), lambda known, _, told: of(known, told[1]).update(look="seen")),
)
