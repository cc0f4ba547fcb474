"""Agents that a development server serves in tests; SUPPORT_DATABASE names the file of the effects."""

import os
from pathlib import Path
from time import sleep
from typing import Any

from certigraph import agent
from helpers.models.typing_chat import TypingChat
from helpers.worlds.support_database import SupportDatabase, scripted_model

PAUSE = Path(os.environ["SUPPORT_DATABASE"]).with_name("pause")
"""While this file exists, a refund waits after it has taken effect, before the tool answers."""


def wait(name: str) -> None:
    while name == "refunded" and PAUSE.exists():
        sleep(0.05)


SUPPORT = SupportDatabase(Path(os.environ["SUPPORT_DATABASE"]), before=wait)


def support(method: Any, **options: Any) -> Any:
    settings = {"model": scripted_model(), "effects": {"look_up": "repeatable"}, **options}
    return agent(method, tools=SUPPORT.tools, **settings)


sdp = support("sdp")
tdp = support("tdp")
step = support("step")
react = support("react")
typing = support("react", model=TypingChat(responder=scripted_model().responder))
approving = support("sdp", interrupt_on={"refund": True})
