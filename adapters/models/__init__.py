"""Language models: functions that ask them, a meter of their usage, and models that need no network."""

from certigraph.adapters.models.calls import ask, ask_text, choose
from certigraph.adapters.models.chat_models import chat_model
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import Call, Meter, current_meter, metering
from certigraph.adapters.redaction import redact

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
