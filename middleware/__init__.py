"""The same operators as middleware of `create_agent`, deepagents and any `ToolNode`."""

from importlib.util import find_spec

if find_spec("langchain") is None:
    message = "certigraph.middleware needs langchain, missing here: pip install 'certigraph[langchain]'"
    raise ModuleNotFoundError(message, name="langchain")

from certigraph.middleware.beliefs import BeliefMemory
from certigraph.middleware.budgets import BudgetLimit
from certigraph.middleware.certification import Certified
from certigraph.middleware.commitments import CommitTools
from certigraph.middleware.effects import EffectsOnce
from certigraph.middleware.ordered_calls import OrderedCalls
from certigraph.middleware.progress import ProgressGate
from certigraph.middleware.stacks import stack
from certigraph.nodes.policies import PolicySentence, split_policy

__all__ = [
    "BeliefMemory",
    "BudgetLimit",
    "Certified",
    "CommitTools",
    "EffectsOnce",
    "OrderedCalls",
    "PolicySentence",
    "ProgressGate",
    "split_policy",
    "stack",
]
