"""ScienceWorld's prompts."""

# Texts for models: the briefing opens every prompt, so that the model's prompt cache hits; then the prompts of SDP's
# operators.

BRIEFING = """
The world is a house where simple science is done: ten rooms (art studio, bathroom, bedroom, foundry, greenhouse,
hallway, kitchen, living room, outside, workshop) with things in them. You see and reach only what is in your room and
what you carry. Things may be inside others; a closed container hides what is in it until it is opened.

Forms of actions, where OBJ, ROOM and the like stand for names that the world shows:
teleport to ROOM - be in another room at once; go to ROOM - walk to a room next door
look around - see the room, which is shown after every action anyway
look at OBJ, look in OBJ - see more of a thing
inventory - what you carry; pick up OBJ - carry a thing; put down OBJ - leave it here
move OBJ to OBJ - put a thing into or onto another; pour OBJ into OBJ - what the first thing contains into the second
dunk OBJ into OBJ; mix OBJ - let the things inside a container react
open OBJ, close OBJ - doors and containers; activate OBJ, deactivate OBJ - turn devices on or off
connect OBJ to OBJ - terminals of wires, batteries, bulbs, switches: black wire terminal 1, battery anode; a thing that
is to be tested takes part under its own name; disconnect OBJ - a whole wire or thing
use OBJ on OBJ - a tool on a thing: a thermometer measures its temperature; what is shown beside the thermometer itself
is no measurement
read OBJ - books, notes, recipes; eat OBJ; flush OBJ
wait - let eleven moments pass, its own and ten more; wait1 - let two moments pass
focus on OBJ - tell the world that this is the thing the task asks about

How the world works:
- The score grows when something that the task asks for is done, in the order in which it asks, and for steps on the way
  to it, such as reaching a room that helps. It may begin above 0, and points alone prove nothing.
- Focus only on what the task, or your assignment as a part of it, says, when it says so: focusing on a wrong thing ends
  everything at once. A focus may be written ahead: it is sent only if its thing is then shown by that very name.
- Where moves are counted, an action costs one, looking at or into a thing included, wait 11 and wait1 2; look around,
  inventory and actions that the world does not know cost none.
- To do something with a thing, first be in its room. Things that fit in a hand can be picked up and carried along. A
  name is shown once for each thing of that name; moving one takes it from where it is, also from where it was just put.
- A door is shown as closed only if it is closed; animals leave through open ones.
- A change of the state of matter shows in the name of a substance.
- Every action takes a moment: what the world shows now is one moment newer than the answer to the last action. After
  the last connection of a circuit, let two moments pass before you judge it.
- A sink gives water when it is activated; a stove, an oven or a furnace heats what is in or on it once it is
  activated; a fridge or freezer cools what is in it. Heating, cooling and growing take time: look again, or wait.
- Living things are plants and animals, at every stage of their life, such as egg, seed, seedling, juvenile, adult. An
  egg counts as an animal, a picked fruit neither as a plant nor as alive. Seeds need soil and water. Actions name them
  by stage and kind: adult pea plant, for what is shown as a pea plant in the adult stage.
- The boxes that answers go into are named by their colour.
- Of things with one name, say which: ceramic cup containing tea, cup containing water and salt, orange in bowl, seed in
  inventory, drawer in counter. Where you do not, one that you carry is meant, or to pick up one that you do not carry.
  Of several in different places you are then asked which.
"""

PLACES = """
Where things usually are:
- kitchen: stove, oven, fridge, freezer, sink, cupboard, counter, tables; pots, cups, jars, food, lighter, thermometer
- workshop: table with battery, wires, light bulbs, switch, other electrical parts; things to test
- art studio: cups of paint, jug, large cupboard
- greenhouse: flower pots, soil, seeds, all plants, bee hive, shovel, sink, jug
- outside: most animals, eggs, trees, fire pit, fountain, wood, axe
- foundry: blast furnace, sink; bathroom: sink, toilet, bathtub
- bedroom: bed, closet, books; living room: chairs, couch, bookshelf; hallway: picture
"""
"""Where things usually are: for models too small to search. STEP and CLIN must learn it (STEP, section 4.2.3)."""

SYNONYMS = {
    **dict.fromkeys(("take", "get", "grab"), "pick up"),
    **dict.fromkeys(("put", "place", "insert"), "move"),
    "put down": "put down",
    **dict.fromkeys(("turn on", "switch on"), "activate"),
    **dict.fromkeys(("turn off", "switch off"), "deactivate"),
    **dict.fromkeys(("walk to", "enter", "travel to", "head to", "go through"), "go to"),
    **dict.fromkeys(("examine", "inspect", "observe"), "look at"),
    **dict.fromkeys(("combine", "stir"), "mix"),
    **{"dip": "dunk", "empty": "pour", "apply": "use"},
}
"""Verb that a model may write -> verb of the world; used to match a written action to the admissible ones."""

WORDINGS = """\
The agent is in ROOM. The location of THING is known. THING is in focus. The inventory contains THING. THING is in ROOM.
THING is in THING. THING is on THING. THING contains THING. THING is on. THING is off. THING is open. THING is closed.
THING is broken. The temperature of THING was measured. The measured temperature of THING is above (or below) NUMBER.
The location of what is in sight now is known. What is in a thing inside of another is in that one too.
Call things by their full names in the world, such as adult wolf, flower pot 1, wood cup containing blue paint.
"""
"""Wordings of conditions that rules decide either way."""

REFUSED = """\
Actions that the world refused as they were written. A name may be wrong, or the thing may be out of reach, for example
inside something closed:
{actions}"""

NEW_ROOM = "A condition that the place of a thing is known counts as held when a new room was entered."
"""The SDP paper's rule for conditions about places (appendix A.3), used by `scienceworld:paper` only."""
