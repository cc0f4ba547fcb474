"""Readers of what a user writes: options, names of models, tasks, operators and engines, a question."""

from fuzzing.target import Target, join_texts, of_file, of_text, of_texts

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.faults import Faults
from certigraph.adapters.models.chat_models import check_model_name
from certigraph.adapters.protocols import Limits
from certigraph.adapters.web.sources import _create_provider, _split_names
from certigraph.benchmarks.locomo.benchmark import ConversationBank
from certigraph.benchmarks.locomo.conversations import Conversation
from certigraph.benchmarks.scienceworld.splits import setting_of
from certigraph.benchmarks.swe_qa.questions import parse_origin
from certigraph.benchmarks.textworld.world import parse_name
from certigraph.evaluation.comparison import parse_methods
from certigraph.evaluation.sweep import read_sweep
from certigraph.graphs.assembly import operators_of
from certigraph.runtime.approvals import parse_answer
from certigraph.runtime.registry import build_graph, parse_budget, parse_roles, parse_swap
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.search import create_question_task
from certigraph.studies.rewards import _parse_predictor
from certigraph.studies.rubrics import rubric_by_name

GRAPHS = ("sdp", "ircot", "tdp")
"""Their slots take operators of most kinds."""


def _swapped(text: str) -> None:
    """A swap made in the graphs that have its slot; a name with a colon would run a module of any name."""
    slot, spec = parse_swap(text)
    if ":" in spec.name:
        return
    for graph in GRAPHS:
        if slot in operators_of(build_graph(graph)):
            build_graph(graph, {slot: spec})


def _engines(text: str) -> object:
    return [_create_provider(name) for name in _split_names(text) if not name.startswith("local:")]


def _named(text: str) -> object:
    """A method with swaps; no module of a user's is imported."""
    return None if text.count(":") > 1 else _parse_predictor(text)


def _methods(one: str, other: str, swap: str) -> object:
    return None if swap.count(":") > 1 else parse_methods([one, other], [swap] if swap else [])


def _split(text: str) -> object:
    return ConversationBank(dict[str, Conversation]).split(text)


def _task(text: str) -> object:
    """A task of whatever benchmark the name begins with."""
    name, _, task = text.partition("/")
    return load_benchmark(name).task(task)


SWEEP = b"""graphs: [sdp]
benchmarks: [{name: blocksworld, tasks: [4-0]}]
model: scripted:expert
"""

NAMES = (UnknownName, Fault)

TARGETS = (
    Target(
        "command.budget",
        of_texts(lambda *t: parse_budget([one for one in t if one], Limits()), 2),
        (UnknownName,),
        (join_texts("steps=120", "usd=0.5"),),
    ),
    Target(
        "command.roles",
        of_texts(lambda *t: parse_roles([one for one in t if one]), 2),
        (UnknownName,),
        (join_texts("executor=local", "judge=openai/gpt"),),
    ),
    Target(
        "command.model",
        of_text(check_model_name),
        (UnknownName,),
        (b"simulated:act=0.3,seed=1", b"openai:gpt?effort=low", b"local:a.gguf"),
    ),
    Target("command.answer", of_text(parse_answer), (), (b'{"decisions": [{"type": "approve"}]}', b"yes")),
    Target(
        "command.swap",
        of_text(_swapped),
        (UnknownName,),
        (
            b"validate=capped:depth=1",
            b"validate=always_pass",
            b'gate=either:one=(exhaustion_gate:patience=3),other=[1,"a"]',
        ),
    ),
    Target(
        "command.methods", of_texts(_methods, 3), (UnknownName,), (join_texts("sdp", "bare=step", "bare:planner=none"),)
    ),
    Target("command.predictor", of_text(_named), (UnknownName,), (b"statefactory", b"x=monotonic")),
    Target("command.faults", of_text(Faults.read), (UnknownName,), (b"timeout=0.1,crash=0.01,seed=3", b"")),
    Target("command.sweep", of_file(read_sweep, "sweep.yaml"), (Fault,), (SWEEP,)),
    Target("command.question", of_text(create_question_task), (UnknownName,), (b"How old is the Eiffel Tower?",)),
    Target("command.rubric", of_text(rubric_by_name), (UnknownName,), (b"tdp",)),
    Target("command.engines", of_text(_engines), NAMES, (b"",)),
    Target("command.benchmark", of_text(load_benchmark), NAMES, (b"travelplanner:paper", b"blocksworld")),
    Target(
        "command.task",
        of_text(_task),
        NAMES,
        (b"blocksworld/4-0", b"scienceworld/gold/boil:0", b"webshop/G039837515-1"),
    ),
    Target("command.scienceworld", of_text(setting_of), (UnknownName,), (b"gold/boil:0", b"boil:0")),
    Target("command.textworld", of_text(parse_name), (UnknownName,), (b"cooking-1-0",)),
    Target("command.split", of_text(_split), (UnknownName,), (b"swapped-3-1", b"cgdp")),
    Target("command.repository", of_texts(parse_origin, 2), (), (join_texts("https://github.com/a/b.git", "00"),)),
)
