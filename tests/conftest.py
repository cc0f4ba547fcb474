"""What holds for all tests: a busy machine is no failure, and an endpoint that failed is asked again at once."""

import pytest
from hypothesis import settings

from certigraph.adapters.models import calls
from certigraph.adapters.models.chat_models import forget_refused

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PAUSES", (0.001, 0.001))
    forget_refused()  # a port may be another stub's by now
