"""What anyone knows of the things in ScienceWorld's tasks: which are animals, how old they get, how paints mix."""

LIFE_SPANS = {
    "giant tortoise": 150, "tortoise": 150, "turtle": 60, "crocodile": 70, "elephant": 65, "parrot": 60,
    "alligator": 50, "brown bear": 25, "wolf": 14, "beaver": 14, "frog": 10, "toad": 10, "dove": 9, "blue jay": 7,
    "chameleon": 6, "chipmunk": 3, "hedgehog": 4, "rabbit": 8, "mouse": 2, "bee": 0.3, "spider": 1, "ant": 0.5,
    "butterfly": 0.1, "moth": 0.1, "dragonfly": 0.1, "tadpole": 10, "caterpillar": 0.1,
}  # fmt: skip
"""Years that an animal may live, roughly."""

SOURCES = {
    "a renewable": ("solar panel", "wind generator"),
    "a nonrenewable": ("gas generator", "nuclear generator"),
    "": ("battery", "solar panel", "wind generator", "gas generator", "nuclear generator"),
}
"""What gives power, by what a task asks of it."""

PLANTS = ("tree", "plant", "seed", "flower", "sapling")

MIXED_PAINTS = {
    "orange": ("red", "yellow"),
    "green": ("blue", "yellow"),
    "violet": ("red", "blue"),
    "purple": ("red", "blue"),
}


def animal(name: str) -> str:
    """The animal that a thing's name has, whatever its stage of life: `baby wolf` -> `wolf`; empty where none."""
    return max((one for one in LIFE_SPANS if one in name), key=len, default="")


def is_kind(name: str, kind: str) -> bool:
    """Whether a thing is what a task asks for: an animal, a plant, a living or a non-living thing."""
    beast, plant = bool(animal(name)), any(word in name.split() for word in PLANTS)
    return {"animal": beast, "plant": plant, "living thing": beast or plant}.get(kind, not (beast or plant))
