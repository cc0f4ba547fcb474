"""Rules that read what worlds answer, as states and as goals."""

from functools import partial

from fuzzing.target import Target, join_texts, of_text, of_texts

from certigraph.adapters.rewards import require_factors
from certigraph.benchmarks.alfworld.factors import parse_goal
from certigraph.benchmarks.qa.benchmark import find_supporting_sentence, find_supporting_sentences, split_sentences
from certigraph.benchmarks.scienceworld.world import classify_reply, parse_options, parse_room, simplify_view
from certigraph.benchmarks.textworld.factors import parse_objective, parse_recipe
from certigraph.benchmarks.webshop.products import nouns_in
from certigraph.benchmarks.webshop.world import propose_keywords
from certigraph.state.records import Task
from certigraph.state.rewards import FactoredState

ALFWORLD = join_texts(
    "put a clean apple in fridge.",
    "go to fridge 1",
    "You arrive at fridge 1. The fridge 1 is open. In it, you see a apple 1, and a cup 2.",
    "take apple 1 from fridge 1",
    "You pick up the apple 1 from the fridge 1.",
)
BLOCKS = join_texts(
    "My goal is that the red block is on top of the blue block.",
    "",
    "As observed, the red block is clear, the hand is empty and the red block is on the table.",
)
SCIENCE = (
    join_texts(
        "Your task is to boil water. First, focus on the substance.",
        "look around",
        "This room is called the kitchen. In it, you see: \n\ta stove, which is turned off. On the stove is: nothing.\n"
        "You also see:\n\tA door to the hallway (that is open)",
    ),
    join_texts(
        "Your task is to measure the temperature of lead, which is located around the kitchen.",
        "use thermometer on lead",
        "the thermometer measures a temperature of 25 degrees celsius",
    ),
)
TEXTWORLD = join_texts(
    "First, open the chest, then take the key from the chest. Then, insert the key into the gate's lock to unlock it.",
    "go north",
    "-= Kitchen =-\nYou see a closed chest. You are carrying: a raw apple and some milk.",
    "open chest",
    "You open the chest, revealing an old key.",
)
WEBSHOP = join_texts(
    "Find me water proof speakers with color: red, and price lower than 50.00 dollars",
    "search[speakers]",
    "[button] Back to Search [button_]\nPage 1 (Total results: 50)\n[button] B01 [button_]\nred speakers\n$19.99",
    "click[B01]",
    "[button] < Prev [button_]\ncolor\n[clicked button] red [clicked button_]\nred speakers\n"
    "Price: $19.99 to $27.99\n[button] Buy Now [button_]",
)


def _episode(domain: str, goal: str, *observations: str) -> FactoredState:
    """The state after a few steps, as the rules of a world follow it, with the goal read again at each."""
    factors = require_factors(Task(benchmark=domain, id="fuzzed"))
    state, wanted = FactoredState(), FactoredState()
    for action, observation in zip(observations[::2], observations[1::2], strict=False):
        state = factors.extract(state, goal, action, observation)
        wanted = factors.interpret(goal, state, wanted)
    return state


def _seen(domain: str, *seeds: bytes) -> Target:
    return Target(f"seen.{domain}", of_texts(partial(_episode, domain), 7, errors="replace"), (), seeds)


def _reply(text: str) -> object:
    return classify_reply(text), parse_options(text), parse_room(text), simplify_view(text)


def _sentence(finding: str, text: str) -> object:
    sentences = split_sentences(text)
    return find_supporting_sentence(finding, sentences), find_supporting_sentences(finding, sentences)


TARGETS = (
    _seen("alfworld", ALFWORLD),
    _seen("blocksworld", BLOCKS),
    _seen("scienceworld", *SCIENCE),
    _seen("textworld", TEXTWORLD),
    _seen("webshop", WEBSHOP),
    Target(
        "seen.alfworld_goal",
        of_text(parse_goal),
        (),
        (b"put two soapbar in cabinet.", b"examine the cd with the desklamp."),
    ),
    Target(
        "seen.reply",
        of_text(_reply),
        (),
        (
            b"Ambiguous request: Please enter the number for the action you intended:\n0:\tgo\n1:\tlook",
            b"You move to the kitchen.",
        ),
    ),
    Target(
        "seen.objective", of_text(parse_objective), (), (b"Open the chest, and put the key on the floor. Go north.",)
    ),
    Target(
        "seen.recipe",
        of_text(parse_recipe),
        (),
        (b"Ingredients:\n  carrot\nDirections:\n  chop the carrot\n  prepare meal",),
    ),
    Target(
        "seen.instruction", of_text(lambda t: (propose_keywords(t), nouns_in(t))), (), (WEBSHOP.partition(b"\x1e")[0],)
    ),
    Target(
        "seen.sentences", of_texts(_sentence, 2), (), (join_texts("Ada was born", "Ada was born in 1815. She died."),)
    ),
)
