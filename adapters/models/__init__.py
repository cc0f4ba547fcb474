"""Language models: one way to ask them, one meter for what they cost, and models that need no network."""

from certigraph.adapters.models.ask import Prompt, ask, ask_text, choose
from certigraph.adapters.models.chat import chat_model
from certigraph.adapters.models.meter import Call, Meter, current_meter, metering
from certigraph.adapters.models.redact import redact
from certigraph.adapters.models.scripted import ScriptedChat

__all__ = [
    "Call",
    "Meter",
    "Prompt",
    "ScriptedChat",
    "ask",
    "ask_text",
    "chat_model",
    "choose",
    "current_meter",
    "metering",
    "redact",
]
