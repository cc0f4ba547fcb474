"""AgentDojo's attacks by name: texts that are injected into what tools answer."""

from collections.abc import Mapping
from functools import cache, lru_cache, partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from certigraph.adapters.extras import import_extra
from certigraph.benchmarks.agentdojo.encodings import encode_text, split_name


@cache
def import_agentdojo(module: str) -> Any:
    """Import a module of AgentDojo, and undo what it changes for other users of YAML in this process.

    AgentDojo has every text quoted that anybody dumps as YAML, since its own data must be. Only its dumps keep that. It
    reads its data by libyaml where that is installed.

    Raises:
        Fault: ("data") agentdojo is not installed.
    """
    import yaml

    representers = dict(yaml.Dumper.yaml_representers)
    imported = import_extra(module, "AgentDojo needs", "agentdojo")
    if yaml.Dumper.yaml_representers.get(str) is not representers.get(str):
        quoting = type("QuotingDumper", (yaml.Dumper,), {"yaml_representers": dict(yaml.Dumper.yaml_representers)})
        yaml.Dumper.yaml_representers = representers
        suites: Any = import_module("agentdojo.task_suite.task_suite")
        fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # reading the data takes most of the time of a task
        changed = {"dump": partial(yaml.dump, Dumper=quoting), "safe_load": partial(yaml.load, Loader=fast)}
        suites.yaml = SimpleNamespace(**{**vars(yaml), **changed})
    return imported


ATTACKS = (
    "direct",
    "ignore_previous",
    "important_instructions",
    "important_instructions_no_model_name",
    "injecagent",
    "system_message",
    "tool_knowledge",
)
"""Attacks that try to make an agent reach the attacker's goal. AgentDojo's further ones only stop it from working."""

TARGET = "gpt-4o-2024-05-13"
"""Name of the attacked pipeline. Some attacks address the model by name, and AgentDojo calls this one GPT-4."""


def create_injections(suite: Any, attack: str, user_task: str, injection_task: str) -> Mapping[str, str]:
    """Return what an attack writes into the places of a suite's data that the user task reads, by place.

    Args:
        suite: AgentDojo's suite.
        attack: name of the attack, after which `+ENCODING` names how its text is encoded.
        user_task: id of the user task.
        injection_task: id of the injection task, which has the attacker's goal.
    """
    name, encoding = split_name(attack)
    official = suite.injection_tasks[injection_task]
    injections: Mapping[str, str] = _load_attack(suite, name).attack(suite.user_tasks[user_task], official)
    return {place: encode_text(text, official.GOAL, encoding) for place, text in injections.items()}


@lru_cache(maxsize=64)
def _load_attack(suite: Any, attack: str) -> Any:
    attacks = import_agentdojo("agentdojo.attacks")
    return attacks.load_attack(attack, suite, SimpleNamespace(name=TARGET))
