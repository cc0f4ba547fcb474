"""certigraph's operators as nodes for the graph of anybody's own, over `messages` and the key `certigraph`.

    from certigraph.nodes.for_messages import after_check, after_gate, certified_end, check, gate

Each works with `invoke` and `ainvoke`, reads messages as LangGraph writes them, and keeps plain JSON.
"""

from certigraph.nodes.message_beliefs import belief
from certigraph.nodes.message_ends import (
    after_certify,
    after_check,
    audit,
    certified_end,
    certify,
    check,
    validate,
)
from certigraph.nodes.message_gates import MessageState, after_gate, gate

__all__ = [
    "MessageState",
    "after_certify",
    "after_check",
    "after_gate",
    "audit",
    "belief",
    "certified_end",
    "certify",
    "check",
    "gate",
    "validate",
]
