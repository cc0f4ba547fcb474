"""Requests to a search service: its address and key, bounded tries, time and size, and faults that show no secret."""

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from certigraph.adapters.bounded_http import PACKED, UnboundedAnswer, bound_answer
from certigraph.adapters.models.redact import mask_logs, show_address
from certigraph.adapters.web.advice import advice, is_spent
from certigraph.adapters.web.service import Service
from certigraph.state.endings import Fault

if TYPE_CHECKING:
    import httpx

TIMEOUT = 15.0
"""Seconds that one try may take."""

TRIES = 3
LONGEST_WAIT = 20.0
"""Seconds between two tries, whatever the service asks for."""

MOST_BYTES = 5_000_000
ALWAYS = {**PACKED, "Accept": "application/json", "Connection": "close", "User-Agent": "certigraph"}

Sleep = Callable[[float], None]
T = TypeVar("T", bound="Form")


class Form(BaseModel):
    """What is read of an answer; services add fields as they like."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Reply(NamedTuple):
    """An answer of bounded size."""

    status: int
    content: bytes
    retry_after: str


class Requests:
    """Asks one service. Blocks; threads may share it.

    Raises:
        Fault: ("environment") the service has no address, or what is set is none, or the proxy that is set is.
    """

    def __init__(self, service: Service, *, timeout: float = TIMEOUT, sleep: Sleep = time.sleep) -> None:
        import httpx

        mask_logs()
        address = service.address()
        self._service, self._timeout, self._sleep = service, timeout, sleep
        self._url = address.copy_with(username="", password="")
        self._asked = f"{service.name} at {show_address(str(address))}"
        user = (address.username, address.password)
        self.name = _name(self._url, self._asked) if os.environ.get(service.variable) else service.name
        """Of who answers: a service at another address is another one."""
        self._client = _client(httpx.BasicAuth(*user) if any(user) else None)

    def get(self, form: type[T], params: Mapping[str, str], headers: Mapping[str, str] | None = None) -> T:
        """The answer to a query in the address. Raises Fault like `post`."""
        return self.read(self._answer("GET", self._url.copy_merge_params(params), headers=headers), form)

    def post(self, form: type[T], body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> T:
        """The answer to a JSON body.

        Raises:
            Fault: ("environment") no answer in time, a refusal, still busy at the last try, too long, or of another
                form. Nothing that the service wrote is repeated: it may be the key.
        """
        return self.read(self._answer("POST", self._url, json=body, headers=headers), form)

    def request(self, method: str, url: "httpx.URL | None" = None, **sent: Any) -> Reply:
        """One request and its answer, whatever its status. Raises Fault where none comes, or one that is too long."""
        import httpx

        try:
            with self._client.stream(method, url or self._url, timeout=self._timeout, **sent) as reply:
                bound_answer(reply, MOST_BYTES)
                return Reply(reply.status_code, reply.read(), reply.headers.get("Retry-After", ""))
        except UnboundedAnswer:
            long = f"{self._asked} answered with more than {MOST_BYTES // 1_000_000} MB, or packed as nobody asked for"
            raise Fault("environment", f"{long}: check {self._service.variable}") from None
        except httpx.TimeoutException:
            failed = f"no answer within {self._timeout:g} s from {self._asked}"
        except httpx.HTTPError as error:
            failed = f"no answer from {self._asked} ({type(error).__name__})"
        # not chained: the original may hold the key
        raise Fault("environment", f"{failed}: {self._service.unreached()}") from None

    def waits(self, reply: Reply, tried: int) -> bool:
        """Whether the service was too busy in this try and is to be asked again."""
        return _is_busy(reply) and tried < TRIES

    def wait(self, reply: Reply, tried: int) -> None:
        """Wait before the next try, as long as the service wants within bounds."""
        self._sleep(min(_asked_wait(reply, 2.0 ** (tried - 1)), LONGEST_WAIT))

    def read(self, reply: Reply, form: type[T]) -> T:
        """The answer in its form. Raises Fault where it is a refusal or of another form."""
        if not 200 <= reply.status < 300:
            told = advice(self._service, reply.status, reply.content)
            raise Fault("environment", f"{self._asked} answered with status {reply.status}: {told}")
        try:
            return form.model_validate_json(reply.content)
        except ValidationError as error:
            wrong = "no JSON" if error.errors()[0]["type"] == "json_invalid" else "JSON of another form than expected"
            told = f"{self._asked} answered with {wrong} (status {reply.status}, {len(reply.content)} bytes)"
            raise Fault("environment", f"{told}: {self._service.misread()}") from None

    def _answer(self, method: str, url: "httpx.URL", **sent: Any) -> Reply:
        tried = 1
        while self.waits(reply := self.request(method, url, **sent), tried):
            self.wait(reply, tried)
            tried += 1
        return reply


def _name(url: "httpx.URL", shown: str) -> str:
    """The address as it may be shown, and a digest of the rest of it, which may be secret."""
    return f"{shown} {hashlib.sha256(str(url).encode()).hexdigest()[:8]}"


def _client(auth: "httpx.Auth | None") -> "httpx.Client":
    import httpx

    try:
        return httpx.Client(auth=auth, headers=ALWAYS)
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        # not repeated: a proxy's address may hold a password
        wrong = f"the proxy or the certificates that the environment names cannot be used ({type(error).__name__})"
        raise Fault("environment", f"{wrong}: correct or unset ALL_PROXY, HTTPS_PROXY and SSL_CERT_FILE") from None


def _is_busy(reply: Reply) -> bool:
    return reply.status >= 500 or (reply.status == 429 and not is_spent(reply.status, reply.content))


def _asked_wait(reply: Reply, otherwise: float) -> float:
    return float(reply.retry_after) if reply.retry_after.isdecimal() else otherwise
