"""Requests to a search server: its address and credentials, bounded retries, and faults that show no credentials."""

import os
import re
import time
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from certigraph.adapters.bounded_http import PACKED, UnboundedAnswer, bound_answer
from certigraph.adapters.models.redact import mask_logs, remember_address, show_address
from certigraph.state.endings import Fault

if TYPE_CHECKING:
    import httpx

VARIABLE = "CERTIGRAPH_OPENSEARCH_URL"
BUSY = (429, 503)
TRIES = 4
LONGEST_WAIT = 20.0
"""Seconds between two tries, whatever the server asks for."""

MOST_BYTES = 16_000_000
"""Unpacked bytes of one answer: of a thousand passages, or of a batch that was stored."""

NDJSON = "application/x-ndjson"

T = TypeVar("T", bound=BaseModel)


class Server:
    """A search server at `url`, else at CERTIGRAPH_OPENSEARCH_URL; either may hold a user's name and password.

    `shown` is the address as errors say it: scheme, host and port. Threads may share a server.
    """

    def __init__(self, url: str, client: "httpx.Client | None", timeout: float) -> None:
        import httpx

        mask_logs()
        address = _address(remember_address(url) or os.environ.get(VARIABLE, ""))
        self.shown = show_address(str(address))
        self._base = f"{address.scheme}://{address.netloc.decode()}{address.path.rstrip('/')}"
        self._auth: Any = httpx.USE_CLIENT_DEFAULT
        if address.username or address.password:
            self._auth = httpx.BasicAuth(address.username, address.password)
        self._client = client or httpx.Client()
        self._timeout = timeout

    def ask(
        self, method: str, path: str, body: str = "", *, kind: str = "application/json", fine: tuple[int, ...] = ()
    ) -> "httpx.Response":
        """The answer, once the server is not busy; a status of `fine` is one too, any other failure is not.

        Raises:
            Fault: no answer, a refusal, or still busy at the last of four tries.
        """
        for tried in range(1, TRIES + 1):
            reply = self._sent(method, path, body, kind)
            if reply.status_code not in BUSY or tried == TRIES:
                break
            time.sleep(min(_asked_wait(reply, 0.5 * 2**tried), LONGEST_WAIT))
        if reply.is_success or reply.status_code in fine:
            return reply
        raise Fault("environment", f"{method} {self.shown}{path} failed: {_told(reply)}{_advice(reply.status_code)}")

    def read(self, reply: "httpx.Response", form: type[T]) -> T:
        """The answer as a record. Raises Fault where it is not JSON or has another shape."""
        try:
            return form.model_validate_json(reply.content)
        except ValidationError as error:
            wrong = "is no JSON" if error.errors()[0]["type"] == "json_invalid" else "has another form than expected"
            told = f"the answer of {self.shown} {wrong} (status {reply.status_code}, {len(reply.content)} bytes)"
            raise Fault("environment", f"{told}: set {VARIABLE} to an OpenSearch or Elasticsearch server") from None

    def _sent(self, method: str, path: str, body: str, kind: str) -> "httpx.Response":
        import httpx

        try:
            with self._client.stream(
                method,
                self._base + path,
                content=body.encode() or None,
                headers={**PACKED, **({"Content-Type": kind} if body else {})},
                auth=self._auth,
                timeout=self._timeout,
            ) as reply:
                bound_answer(reply, MOST_BYTES)
                reply.read()
                return reply
        except UnboundedAnswer as error:
            raise Fault("environment", f"the search server at {self.shown}: {error}: check {VARIABLE}") from None
        except httpx.HTTPError as error:
            failed = f"no answer from the search server at {self.shown} ({type(error).__name__})"
            raise Fault("environment", f"{failed}: start it, or set {VARIABLE} to its address") from None


def _address(url: str) -> "httpx.URL":
    """The parsed address; what is none is not shown, for it may hold a password."""
    import httpx

    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        address = httpx.URL()
    if address.scheme not in ("http", "https") or not address.host:
        what = "is not an address" if url else "is not set"
        raise Fault("environment", f"{VARIABLE} {what}: export {VARIABLE}=https://user:password@host:9200")
    return address


def _asked_wait(reply: "httpx.Response", otherwise: float) -> float:
    asked = reply.headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else otherwise


def _told(reply: "httpx.Response") -> str:
    """Status and kind of error; the server's prose could repeat what it was sent."""
    kind = re.search(r'"type"\s*:\s*"([a-z_]+)"', reply.text)
    return f"status {reply.status_code}" + (f", {kind[1]}" if kind else "")


def _advice(status: int) -> str:
    if status in (401, 403):
        return f"; set {VARIABLE} with credentials that may use this index: https://user:password@host:9200"
    return f"; it was busy in {TRIES} tries: try again later" if status in BUSY else ""
