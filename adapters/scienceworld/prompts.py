"""ScienceWorld's prompts."""

# Texts for models: the briefing opens every prompt, so that the model's prompt cache hits; then the prompts of SDP's
# operators.

BRIEFING = """
The world is a house where simple science is done: ten rooms (art studio, bathroom, bedroom, foundry, greenhouse,
hallway, kitchen, living room, outside, workshop) with things in them. You see and reach only what is in your room and
what you carry. Things may be inside others; a closed container hides what is in it until it is opened.

Forms of actions, where OBJ, ROOM and the like stand for names that the world shows:
teleport to ROOM - be in another room at once; go to ROOM - walk to a room next door
look around - see the room again; look at OBJ, look in OBJ, examine OBJ - see more of a thing
inventory - what you carry; pick up OBJ - carry a thing; put down OBJ - leave it here
move OBJ to OBJ - put a thing into or onto another; pour OBJ into OBJ - a liquid into a container
dunk OBJ into OBJ; mix OBJ - let the things inside a container react
open OBJ, close OBJ - doors and containers; activate OBJ, deactivate OBJ - turn devices on or off
connect OBJ to OBJ, disconnect OBJ - terminals of wires, batteries, bulbs, switches
use OBJ on OBJ - a tool on a thing: a thermometer measures its temperature
read OBJ - books, notes, recipes; eat OBJ; flush OBJ
wait - let ten moments pass; wait1 - let one moment pass
focus on OBJ - tell the world that this is the thing the task asks about

How the world works:
- The score grows when something that the task asks for is done, in the order in which it asks.
- Focus only on what the task says, when it says so: focusing on a wrong thing ends everything at once.
- To do something with a thing, first be in its room. Things that fit in a hand can be picked up and carried along.
- A sink gives water when it is activated; a stove, an oven or a furnace heats what is in or on it once it is
  activated; a fridge or freezer cools what is in it. Heating, cooling and growing take time: look again, or wait.
- Living things are plants and animals; plants grow in the greenhouse, most animals live outside. Seeds need soil and
  water. Eggs, seeds, seedlings, young and adults are life stages.
- The boxes that answers go into are named by their colour.

Where things usually are:
- kitchen: stove, oven, fridge, freezer, sink, cupboard, counter, tables; pots, cups, jars, food, lighter, thermometer
- workshop: table with battery, wires, light bulbs, switch, other electrical parts; things to test
- art studio: cups of paint, jug, large cupboard
- greenhouse: flower pots, soil, seeds, plants, bee hive, shovel, sink, jug
- outside: animals, eggs, trees, fire pit, fountain, wood, axe
- foundry: blast furnace, sink; bathroom: sink, toilet, bathtub
- bedroom: bed, closet, books; living room: chairs, couch, bookshelf; hallway: picture
"""

SYNONYMS = {
    **dict.fromkeys(("take", "get", "grab"), "pick up"),
    **dict.fromkeys(("put", "place", "insert"), "move"),
    "put down": "drop",
    **dict.fromkeys(("turn on", "switch on"), "activate"),
    **dict.fromkeys(("turn off", "switch off"), "deactivate"),
    **dict.fromkeys(("walk to", "enter", "travel to", "head to", "go through"), "go to"),
    **dict.fromkeys(("examine", "inspect", "observe"), "look at"),
    **dict.fromkeys(("combine", "stir"), "mix"),
    **{"dip": "dunk", "empty": "pour", "apply": "use"},
}
"""Verb that a model may write -> verb of the world; used to match a written action to the admissible ones."""

PLAN = """\
Task: {task}

Rooms: {rooms}. Name no other room.
{situation}
List the conditions that lead from here to the end of the task, in the order in which they come true. Each is one
change that a single action brings about and that the world shows.
{wordings}"""

WORDINGS = """\
Prefer the wordings: The agent is in ROOM. The location of THING is known. THING is in focus. The inventory contains
THING. THING is in THING.
"""

DRAFT = """\
A draft, read off the task's words: repeat what is right of it, add what is missing, in its place and in like words.
{draft}
"""

STUCK = """
Certified so far:
{certified}

{why}
{failures}

What the world does not take; do not name it again:
{rejected}

The world now:
{view}
"""

EXHAUSTED = 'Stuck at "{stuck}" after {tries} attempts in all, lately:'

UNDONE = """\
These conditions were met, but do not hold any more; make them true again. {reason}
{undone}

Tried lately:"""

DENIED = """\
The task was believed to be completed, but a check found that it is not. {reason}

Tried lately:"""

CUT = """
Certified so far, all that the plan had, for it was as long as a plan may be; give the rest of it:
{certified}

The world now:
{view}
"""

ACT = """\
Task: {task}

Condition to make true: {target}

The world now:
{view}

Tried for it in vain {count} times, lately:
{tried}

Actions:
{actions}
Choose the action that makes the condition true.
"""

WRITE = """\
Task: {task}

The world now:
{view}

Condition to make true: {target}
Tried for it in vain {count} times, lately:
{tried}

Write the one action that makes the condition true, in one of the forms above.
"""

JUDGE = """\
Conditions, in order:
{conditions}

The last action was:
{action}
The world answered:
{observation}
{room}The score is {score} of 100, changed by {change}.

How many of the conditions hold now, counted from the first one on without a gap? If the first does not hold: 0. A
condition that a place is known counts as held when a new room was entered.
"""
