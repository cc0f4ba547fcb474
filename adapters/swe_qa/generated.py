"""A small repository with questions, for where none is checked out."""

from collections.abc import Mapping
from pathlib import Path

from certigraph.adapters.swe_qa.questions import Asked

SETTINGS = '''\
"""Settings of the parcel service, read once at start."""

RETRIES = 4
DEPOT = "north"


def load_settings(path):
    """Read key=value lines; unknown keys are ignored."""
    found = {}
    with open(path) as lines:
        for line in lines:
            key, _, value = line.partition("=")
            found[key.strip()] = value.strip()
    return {"depot": found.get("depot", DEPOT), "retries": int(found.get("retries", RETRIES))}
'''

ROUTES = '''\
"""Which depot a parcel goes through."""

from parcels.errors import UnknownZone

ZONES = {"1": "north", "2": "south", "3": "harbour"}


class Router:
    """Routes by the first digit of the postcode."""

    def __init__(self, zones=ZONES):
        self.zones = zones

    def depot_for(self, postcode):
        """The depot of a postcode."""
        try:
            return self.zones[postcode[0]]
        except KeyError:
            raise UnknownZone(postcode) from None
'''

ERRORS = '''\
"""What can go wrong with a parcel."""


class ParcelError(Exception):
    """Base of all."""


class UnknownZone(ParcelError):
    """No depot serves the postcode."""


class TooHeavy(ParcelError):
    """Above the limit of thirty kilograms."""
'''

SENDING = '''\
"""Hand parcels to carriers."""

from parcels.errors import TooHeavy
from parcels.routes import Router

LIMIT = 30


def send(parcel, carrier, retries=4):
    """Route a parcel and offer it to a carrier until it is taken."""
    if parcel.kilograms > LIMIT:
        raise TooHeavy(parcel.number)
    depot = Router().depot_for(parcel.postcode)
    for attempt in range(retries):
        if carrier.offer(depot, parcel):
            return attempt + 1
    return 0
'''

BADGE = """\
// Draws the badge of a parcel in the shop's page.
export function drawBadge(parcel) {
  return `<b class="parcel">${parcel.number}</b>`;
}
"""

FILES: Mapping[str, str] = {
    "README.md": "# parcels\n\nRoutes parcels to depots and hands them to carriers.\n",
    "parcels/__init__.py": '"""Parcels."""\n',
    "parcels/settings.py": SETTINGS,
    "parcels/routes.py": ROUTES,
    "parcels/errors.py": ERRORS,
    "parcels/sending.py": SENDING,
    "web/badge.js": BADGE,
}

QUESTIONS = (
    ("What is raised when no depot serves a postcode?", "UnknownZone (parcels/routes.py: line 14-19)"),
    ("Which parcels does send refuse?", "Those above 30 kilograms, by TooHeavy (parcels/sending.py: line 11-12)"),
    ("What does send return when no carrier takes the parcel?", "0 (parcels/sending.py: line 9-17)"),
    ("By what does Router choose a depot?", "The first digit of the postcode (parcels/routes.py: line 8-16)"),
    ("Where are the defaults of the settings?", "RETRIES and DEPOT (parcels/settings.py: line 3-4)"),
    ("Which function draws the badge?", "drawBadge (web/badge.js: line 2-4)"),
)


def write_repository(folder: Path) -> Path:
    """Write the repository into a folder, and return it."""
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def generated_questions() -> dict[str, Asked]:
    """Its questions by id, `made/0` to `made/5`."""
    made = (
        Asked(id=f"made/{place}", text=text, answers=(answer,), kind="made", passages=(), hops=())
        for place, (text, answer) in enumerate(QUESTIONS)
    )
    return {asked.id: asked for asked in made}
