"""Worlds that get actions in a model's words: whatever these are, the world answers."""

from collections.abc import Callable
from functools import cache
from typing import Any

from fuzzing.target import Target, join_texts, of_text, of_texts, scratch

from certigraph.adapters.benchmarks import _load_shipped, shipped_benchmarks
from certigraph.benchmarks.blocksworld.domain import parse_action
from certigraph.benchmarks.blocksworld.expert import read_text
from certigraph.benchmarks.research.world import EpisodeMemory
from certigraph.benchmarks.scienceworld.conditions import may_mean, parse_condition
from certigraph.benchmarks.scienceworld.operators import draft_conditions
from certigraph.benchmarks.scienceworld.world import choose_option
from certigraph.benchmarks.swe_qa import world as tools
from certigraph.benchmarks.swe_qa.questions import write_sample_repository
from certigraph.benchmarks.swe_qa.world import Repository, RepositoryRetriever, find_symbols
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action
from certigraph.state.run import query_of

WORLDS = {
    "blocksworld": (b"pick up the red block", b"(stack red blue)"),
    "hotpotqa": (b"search[who]", b"claim[a: b (c)]", b"finish[yes]"),
    "hotpotqa:interactive": (b"search[A film]", b"lookup[who]", b"finish[yes]"),
    "locomo": (b"search[dog]", b"finish[a dog]"),
    "musique": (b"search[river]", b"finish[Rhine]"),
    "rewardprediction": (b"[[0, 0.5, 1]]",),
    "swe_qa": (b"search[router]", b"find[*.py]", b"grep[def send]", b"read[README.md:1-9]", b"symbols[Router]"),
    "travelplanner": (b"book a flight",),
    "travelplanner:tools": (b"FlightSearch[A, B, 2022-03-15]", b"NotebookWrite[x]", b"deliver[[]]"),
    "web": (b"search[gym]", b"open[https://example.org]", b"finish[none]"),
    "webshop": (b"search[red shoes]", b"click[Buy Now]"),
}
"""Without data: each has a generated one."""


@cache
def _world(name: str) -> Any:
    plain, _, config = name.partition(":")
    benchmark = _load_shipped(shipped_benchmarks()[plain], config, None)
    return benchmark.open(benchmark.tasks()[0])


def _take_action(name: str) -> Callable[[str], Any]:
    def take(text: str) -> Any:
        world = _world(name)
        world.reset()
        return world.step(Action(text=text)), world.view()

    return take


@cache
def _repository() -> Repository:
    return Repository(write_sample_repository(scratch()))


def _blocks(text: str) -> object:
    return parse_action(text), read_text(text)


def _looked(text: str) -> object:
    repository = _repository()
    return (
        tools.find_paths(repository, text),
        tools.find_lines(repository, text),
        tools.resolve_lines(repository, text),
        find_symbols(repository, text),
    )


TARGETS = (
    *(Target(f"act.{name}", of_text(_take_action(name)), (), seeds) for name, seeds in WORLDS.items()),
    Target(
        "act.blocks", of_text(_blocks), (), (b"As observed, the red block is clear. My goal is that the a is on b.",)
    ),
    Target("act.code", of_text(_looked), (), (b"router.py:3-9", b"*.py", b"Router.depot_for", b"def ")),
    Target(
        "act.lines",
        of_text(lambda t: RepositoryRetriever(_repository()).passage(t)),
        (UnknownName,),
        (b"README.md:1-3",),
    ),
    Target(
        "act.choice",
        of_texts(lambda a, *o: choose_option(a, o), 3),
        (),
        (join_texts("1", "a", "b"), join_texts("the a one", "a")),
    ),
    Target(
        "act.conditions",
        of_texts(lambda a, b: (parse_condition(a), draft_conditions(a), may_mean(a, b)), 2),
        (),
        (
            join_texts("the water is in the cup", "cup"),
            join_texts("First, focus on the seed. Then, move it to the red box.", ""),
        ),
    ),
    Target("act.asked_for", of_text(lambda t: query_of(Action(text=t))), (), (b"search[ x ]",)),
    Target(
        "act.memory",
        of_text(lambda t: EpisodeMemory(t).result_lines()),
        (),
        (b"see https://example.org/a, and http://b.org.",),
    ),
)
