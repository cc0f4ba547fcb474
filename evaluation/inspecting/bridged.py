"""A chat model that asks whatever inspect was given, inside its agent bridge."""

from collections.abc import Mapping
from typing import Any

from inspect_ai.model import Model, get_model, model_roles
from inspect_ai.model._generate_config import active_generate_config
from inspect_ai.util import LimitExceededError
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr
from tenacity import RetryError

from certigraph.adapters.context import ROLES, Context
from certigraph.adapters.models.chat import chat_model, is_scripted
from certigraph.adapters.models.redact import redact_message
from certigraph.adapters.protocols import Benchmark
from certigraph.state.endings import Fault, LimitKind, LimitReached

LIMITS: Mapping[str, LimitKind] = {"token": "tokens", "cost": "usd", "time": "seconds", "working": "seconds"}
"""inspect's limits by the names of ours; the others count calls."""

ACTIVE = "inspect"
"""The bridge's name of the model that the evaluation runs with; `inspect/ROLE` is that of a role."""

SENDING = {"max_connections", "adaptive_connections", "max_retries", "timeout", "attempt_timeout"}
"""Settings of inspect's that decide how a request is sent, not what is answered."""


class BridgedChat(ChatOpenAI):
    """Asks inspect's model, and takes inspect's limits for the run's own."""

    _limit: LimitExceededError | None = PrivateAttr(None)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._agenerate(*args, **kwargs)
        except LimitExceededError as limit:
            self._limit = limit
            raise LimitReached(LIMITS.get(limit.type, "calls"), limit.limit, limit.value) from limit
        except RetryError as spent:
            error = spent.last_attempt.exception()
            if spent.last_attempt.attempt_number == 1 and isinstance(error, Exception):
                raise error from None  # inspect did not repeat it
            raise Fault("model", redact_message(f"every retry failed: {error!r}")) from None

    @property
    def limit(self) -> LimitExceededError | None:
        """The limit of inspect that stopped the run, if one did."""
        return self._limit

    @property
    def priced_as(self) -> str:
        """The name of what answers behind the bridge, as prices are listed by."""
        return str(self._behind)

    @property
    def free(self) -> bool:
        """Whether it is a model in this process."""
        return self.priced_as.startswith("certigraph/local")

    @property
    def _behind(self) -> Model:
        _, _, role = self.model_name.partition("/")
        return get_model(role=role) if role else get_model()

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What answers behind the bridge: it tells the cache of replies one model from another."""
        behind = self._behind
        settings = behind.config.merge(active_generate_config()).model_dump(exclude_none=True, exclude=SENDING)
        return {"model": str(behind), "served": getattr(behind.api, "served", ""), **settings}


class Minds(BridgedChat):
    """The models of one run by role, as far as inspect answers for them; the others are scripts."""

    _by_role: dict[str, BridgedChat] = PrivateAttr(default_factory=dict)
    _context: Context = PrivateAttr()
    _benchmark: Benchmark = PrivateAttr()

    def for_role(self, role: str) -> BaseChatModel:
        """The model of a role."""
        if role in self._by_role:
            return self._by_role[role]
        name = self._context.roles.get(role, self._context.model)
        if is_scripted(name):
            return chat_model(name, expert=self._benchmark.expert(), trial=self._context.trial)
        return self

    @property
    def limit(self) -> LimitExceededError | None:
        """The limit of inspect that stopped the run, whichever role met it."""
        met = (chat._limit for chat in (self, *self._by_role.values()))
        return next(filter(None, met), None)


def minds_of(context: Context, benchmark: Benchmark) -> Minds | None:
    """The chat model of a run under inspect; None where only scripts answer, which need no bridge."""
    names = (context.model, *context.roles.values())
    if not model_roles() and all(map(is_scripted, names)):
        return None
    minds = Minds(model=ACTIVE, **_SILENT)
    minds._context, minds._benchmark = context, benchmark
    for role in set(ROLES) & set(model_roles()):
        minds._by_role[role] = BridgedChat(model=f"{ACTIVE}/{role}", **_SILENT)
    return minds


_SILENT: Any = {"api_key": SecretStr("none"), "max_retries": 0, "disable_streaming": True}
