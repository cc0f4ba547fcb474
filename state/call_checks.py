"""Records of checks before calls: what was found about a call whose effect lasts, before it was made.

A check needs the calls, their answers and what people wrote, and no graph, so that it fits any agent's loop.
"""

from operator import not_
from typing import Literal

from pydantic import Field

from certigraph.state.records import Record, StoredArguments

CallOutcome = Literal["allowed", "forbidden", "read_first", "ask_first", "unchecked"]
"""What a check found about a call.

`allowed`: it may be made. `forbidden`: a rule and a fact stand against it. `read_first`: something has to be looked up
before anybody can know. `ask_first`: the user has to agree to what is listed first. `unchecked`: it could not be
checked, so it is not made.
"""


class Consent(Record):
    """A user's consent to calls: their words, and the values that they agreed to.

    It covers every call that it lists, and ends for a call of which a value changes.
    """

    words: str
    """Words of the user, as a message has them."""
    values: StoredArguments = Field(default_factory=dict)
    """The arguments of the call that it covers."""


class CallCheck(Record):
    """What a check found about one call, before the call was made."""

    tool: str
    args: StoredArguments = Field(default_factory=dict)
    outcome: CallOutcome
    rule: str = ""
    """The rule that decides: a sentence of the instructions, of an answer or of the user's code."""
    fact: str = ""
    """The fact that the rule is about, in the words of an answer."""
    reason: str = ""
    next: str = ""
    """What to do next instead; empty for an allowed call."""
    consent: Consent | None = None
    decided_by: Literal["code", "model", "person"] = "model"
    action: int = 0
    """Number of the action in which the call was chosen, from 1."""
    completes: bool = Field(default=False, exclude_if=not_)
    """Whether the validator found that with the calls of this action all is done that the task asks for."""

    @property
    def is_denied(self) -> bool:
        """Whether the call was not made."""
        return self.outcome != "allowed"
