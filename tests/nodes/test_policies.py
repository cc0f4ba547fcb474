"""Policies are split once into sentences that stand in them, and a validator reads them as they were kept."""

from helpers.models.scripted_agents import LOOK_UPS, ScriptedAgent, Validator, calls, shop_tools
from langchain.agents import create_agent

import certigraph
from certigraph.middleware import Certified, split_policy

POLICY = """Refunds
1. An order can be refunded until the 30th day. Read the order first.
2. A customer whose request is refused is told the reason."""

SENTENCES = [
    {"kind": "rule", "text": "An order can be refunded until the 30th day."},
    {"kind": "must_come_first", "text": "Read the order first."},
    {"kind": "must_be_told", "text": "A customer whose request is refused is told the reason."},
    {"kind": "rule", "text": "Goodwill is at the agent's discretion."},
]


def split():
    return split_policy(POLICY, certigraph.ScriptedChat(responder=lambda prompt, schema: {"sentences": SENTENCES}))


def test_only_sentences_that_the_policy_has_are_kept():
    assert [(one.id, one.kind) for one in split()] == [
        ("P1", "rule"),
        ("P2", "must_come_first"),
        ("P3", "must_be_told"),
    ]


def test_the_validator_reads_the_kept_sentences_by_their_ids():
    validator = Validator()
    kept = [one.as_json() for one in split()[1:]]  # as somebody edited them in a file
    middleware = Certified(model=validator.chat, policy=kept, effects=LOOK_UPS)
    replies = [calls(("refund", {"order": 17, "amount": 64.0})), "Done."]
    agent = create_agent(
        ScriptedAgent(replies=replies), shop_tools([]), middleware=[middleware], system_prompt="Be kind."
    )
    agent.invoke({"messages": [("user", "Refund order 17.")]})
    assert len(validator.prompts) == 2
    for prompt in validator.prompts:
        assert "P2: Read the order first." in prompt and "Be kind." in prompt
        assert "30th day" not in prompt
