"""certigraph's operators as middleware of LangChain's `create_agent`, of deepagents and of any `ToolNode`."""

from certigraph.middleware.beliefs import BeliefMemory
from certigraph.middleware.certified import Certified
from certigraph.middleware.effects import EffectsOnce
from certigraph.middleware.ordered_calls import OrderedCalls
from certigraph.middleware.progress import ProgressGate
from certigraph.middleware.stacks import stack

__all__ = ["BeliefMemory", "Certified", "EffectsOnce", "OrderedCalls", "ProgressGate", "stack"]
