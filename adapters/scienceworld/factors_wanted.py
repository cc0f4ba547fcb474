"""ScienceWorld's tasks by their wording, each with what makes wanted states of it."""

import re
from collections.abc import Callable

from certigraph.adapters.scienceworld import factors_life as life
from certigraph.adapters.scienceworld import factors_matter as matter
from certigraph.adapters.scienceworld.factors_seen import Known
from certigraph.adapters.scienceworld.factors_states import Wanted

Make = Callable[["re.Match[str]", Known], Wanted]


def wanted(goal: str, known: Known) -> Wanted:
    """The states that a task names, or implies for any agent, given what is known; none where its wording is not."""
    for form, make in _TASKS:
        if told := form.search(goal):
            return make(told, known)
    return {}


def sought(goal: str) -> tuple[str, ...]:
    """The things that a task names in so many words."""
    return next((told.groups() for form, _ in _TASKS if (told := form.search(goal))), ())


_TASKS: tuple[tuple[re.Pattern[str], Make], ...] = (
    (re.compile(r"find a\(n\) (.+?)\..*move it to the (\w+ box) in the ([\w ]+)\."), life.find),
    (re.compile(r"focus on the (\d )?life stages of the (.+?)(?: plant)?, starting"), life.stages),
    (re.compile(r"the animal with the (longest|shortest) life span"), life.life_spans),
    (re.compile(r"to grow an? (.+?)(?: from seed)?\."), life.grow),
    (re.compile(r"recessive trait in the (.+?) plant"), life.inherit),
    (re.compile(r"to (boil|melt|freeze|change the state of matter of) (.+?)\."), matter.change),
    (re.compile(r"the (temperature|melting point) of (.+?), which is located around the (.+?)\."), matter.measure),
    (re.compile(r"create (\S+) paint"), matter.paint),
    (re.compile(r"create the substance '(.+?)'"), matter.mix),
    (
        re.compile(
            r"if (.+?) is electrically conductive\. The .+? is located around the (.+?)\."
            r".*? place it in the (\w+ box)\..*? place it in the (\w+ box)\."
        ),
        matter.conduct,
    ),
    (re.compile(r"turn on the (.+?)(?: by powering it using (a (?:non)?renewable) power source)?\."), matter.power),
    (re.compile(r"two inclined planes \((.+?), (.+?)\)"), matter.planes),
)
