"""Search services over HTTP: Serper, Brave and SearXNG.

`ServiceClient` sends requests to a service with bounded retries, time and size. Its error messages show no secret.
"""

import hashlib
import html
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from certigraph.adapters.http import ENCODING_HEADERS, UnboundedAnswer, limit_response, read_retry_after
from certigraph.adapters.redaction import mask_logs, show_address
from certigraph.adapters.web.protocol import SearchHit, ServiceResult, to_hits
from certigraph.state.endings import Fault
from certigraph.state.search import to_storable_line

if TYPE_CHECKING:
    import httpx


# Configuration of a search service: its address, its API key, and advice if one of them is missing.


@dataclass(frozen=True)
class SearchService:
    """Configuration of a search service: where its address and its API key are found."""

    name: str
    variable: str
    """Environment variable that contains the address."""
    base_url: str = ""
    """Address if the variable is not set; empty if the variable must be set."""
    path: str = ""
    """Required end of the path in the address."""
    key: str = ""
    """Environment variable that contains the API key; empty if the service needs no key."""
    key_page: str = ""
    """URL of the page where a user gets a key and more quota."""

    @property
    def alternative(self) -> str:
        """Setting of CERTIGRAPH_SEARCH that selects another service, for advice in messages."""
        return f"CERTIGRAPH_SEARCH={'serper' if self.name == 'searxng' else 'searxng'}"

    def address(self) -> "httpx.URL":
        """Return the address of the service.

        Raises:
            Fault: ("environment") the address is not set, or is not an http or https address. The message does not show
                it, because it may contain a password.
        """
        import httpx

        text = os.environ.get(self.variable) or self.base_url
        if not text:
            example = f"export {self.variable}=http://localhost:8080"
            raise Fault(
                "environment", f"{self.name} needs an address: {example}, or name another provider: {self.alternative}"
            )
        try:
            address = httpx.URL(text)
            host = address.host
        except (httpx.InvalidURL, ValueError):  # ValueError: an invalid name that begins with `xn--`
            address, host = httpx.URL(), ""
        if address.scheme not in ("http", "https") or not host or (address.port or 1) > 65_535:
            raise Fault("environment", f"{self.variable} is not an address: export {self.variable}=https://HOST/...")
        path = address.path.rstrip("/")
        return address.copy_with(path=path if path.endswith(self.path) else path + self.path)

    def secret(self) -> str:
        """Return the API key.

        Raises:
            Fault: ("environment") the key is not set, or has characters that no key has.
        """
        key = os.environ.get(self.key, "")
        if not key:
            message = f"{self.name} needs a key: export {self.key}=... ({self.key_page})"
            raise Fault("environment", f"{message}, or name another provider: {self.alternative}")
        if not key.isascii() or not key.isprintable() or " " in key:
            problem = f"{self.key} has a blank, a line break or a letter outside ASCII"
            raise Fault("environment", f"{problem}: copy the key again from {self.key_page}")
        return key

    def advise_unreachable(self) -> str:
        """Return advice to the user if the service does not answer."""
        return (
            f"check the network and {self.variable}, then certigraph resume RUN, or start a new run: {self.alternative}"
        )

    def advise_wrong_form(self) -> str:
        """Return advice to the user if an answer of the service cannot be parsed."""
        return f"check that {self.variable} is the address of a service that answers as {self.name} does"


# Advice for refused requests. The service's own text is searched for a few codes and never repeated.

_SPENT_CODES = re.compile(rb"not enough credits|QUOTA_LIMITED|insufficient_quota", re.IGNORECASE)
"""Codes by which Serper, Brave and OpenAI say that the quota is used up. Brave writes "quota" in every refusal."""

_KEY_CODES = re.compile(rb"SUBSCRIPTION_TOKEN_INVALID|invalid_api_key")
"""Codes by which services say that the API key is missing or wrong. Brave's comes with status 422."""


def is_spent(status: int, content: bytes) -> bool:
    """Return whether a refusal means that the quota is used up, so that a repeated request would fail too.

    Args:
        status: HTTP status of the refusal.
        content: body of the refusal.
    """
    return status == 402 or (status < 500 and _SPENT_CODES.search(content) is not None)


def advise_refusal(service: SearchService, status: int, content: bytes) -> str:
    """Return one line of advice: why a request was refused, as far as status and body show it, and what to do."""
    # another provider answers differently, so that the run so far cannot be repeated with it
    next_step = f"then certigraph resume RUN, or start a new run with another provider: {service.alternative}"
    if is_spent(status, content):
        return f"the quota of {service.key or service.name} is spent: top it up at {service.key_page}, {next_step}"
    if status in (401, 403) or _KEY_CODES.search(content):
        return f"{_advise_key(service, status)}, {next_step}"
    if status == 429:
        return f"it limits the rate, or the quota is spent: wait, or top it up, {next_step}"
    if status >= 500:
        return f"it has an internal error: wait, {next_step}"
    return f"it refuses the request: check the provider's name and {service.variable}, {next_step}"


def _advise_key(service: SearchService, status: int) -> str:
    if not service.key:
        return f"add json to search.formats in its settings.yml, or the user's name and password to {service.variable}"
    # Serper also answers 403 to a key whose quota is spent
    spent = ", or its quota is spent" if status == 403 else ""
    return f"the key is refused{spent}: check {service.key} at {service.key_page}"


# Requests to a search service: bounded retries, time and size, and error messages that show no secret.

TRY_TIMEOUT = 15.0
"""Maximum seconds of one request, each of up to MAX_TRIES."""

MAX_TRIES = 3
MAX_WAIT_SECONDS = 20.0
"""Maximum seconds between two tries, whatever the service asks for."""

MAX_ANSWER_BYTES = 5_000_000
REQUEST_HEADERS = {**ENCODING_HEADERS, "Accept": "application/json", "Connection": "close", "User-Agent": "certigraph"}


class UndeliveredAnswer(Fault):
    """A service did not answer one request in time, or with more than may be read; others may succeed."""


class ServiceAnswer(BaseModel):
    """Base class of the parsed answers of services. Fields that a class does not declare are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


T = TypeVar("T", bound=ServiceAnswer)


class ServiceReply(NamedTuple):
    """Response of a service to one request, of bounded size; `retry_after` is the header Retry-After."""

    status: int
    content: bytes
    retry_after: str


class ServiceClient:
    """Sends requests to one service. Its methods block; threads may share it.

    Args:
        service: the service.
        timeout: maximum seconds of one request.

    Raises:
        Fault: ("environment") the address of the service is missing or invalid, or the proxy's is invalid.
    """

    def __init__(self, service: SearchService, *, timeout: float = TRY_TIMEOUT) -> None:
        import httpx

        mask_logs()
        address = service.address()
        self._service, self._timeout = service, timeout
        self._url = address.copy_with(username="", password="")
        self._label = f"{service.name} at {show_address(str(address))}"
        user = (address.username, address.password)
        self.name = _service_name(self._url, self._label) if os.environ.get(service.variable) else service.name
        """Name of the service for caches. It differs for each address that the user sets."""
        self._client = _create_client(httpx.BasicAuth(*user) if any(user) else None)

    def get(self, form: type[T], params: Mapping[str, str], headers: Mapping[str, str] | None = None) -> T:
        """Send a GET request with URL parameters, and return the answer parsed as the type `form`.

        Raises:
            Fault: as `post` raises.
        """
        return self.read(self.answer("GET", self._url.copy_merge_params(params), headers=headers), form)

    def post(self, form: type[T], body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> T:
        """Send a POST request with a JSON body, and return the answer parsed as the type `form`.

        Raises:
            Fault: ("environment") the service does not answer in time, refuses the request, is still busy at the last
                try, or its answer is too long or cannot be parsed. The message repeats nothing that the service wrote,
                because that could be the key.
        """
        return self.read(self.answer("POST", json=body, headers=headers), form)

    def request(self, method: str, url: "httpx.URL | None" = None, **sent: Any) -> ServiceReply:
        """Send one request and return the response, whatever its status.

        Raises:
            Fault: ("environment") there is no response, or it is too long. After a timeout, and for a response that is
                too long, it is an UndeliveredAnswer.
        """
        import httpx

        try:
            with self._client.stream(method, url or self._url, timeout=self._timeout, **sent) as reply:
                limit_response(reply, MAX_ANSWER_BYTES)
                return ServiceReply(reply.status_code, reply.read(), reply.headers.get("Retry-After", ""))
        except UnboundedAnswer:
            message = (
                f"{self._label} answered with more than {MAX_ANSWER_BYTES // 1_000_000} MB, or uses another encoding"
            )
            raise UndeliveredAnswer("environment", f"{message}: check {self._service.variable}") from None
        except httpx.TimeoutException:
            problem = f"no answer within {self._timeout:g} s from {self._label}"
            raise UndeliveredAnswer("environment", f"{problem}: {self._service.advise_unreachable()}") from None
        except httpx.HTTPError as error:
            problem = f"no answer from {self._label} ({type(error).__name__})"
        # not chained, because the original may contain the key
        raise Fault("environment", f"{problem}: {self._service.advise_unreachable()}") from None

    def should_retry(self, reply: ServiceReply, tried: int) -> bool:
        """Return whether to repeat a request: the service was busy, and fewer than MAX_TRIES requests were sent."""
        return _is_busy(reply) and tried < MAX_TRIES

    def refuses_key(self, reply: ServiceReply) -> bool:
        """Return whether a refusal speaks of the key or the quota."""
        return is_spent(reply.status, reply.content) or _KEY_CODES.search(reply.content) is not None

    def wait(self, reply: ServiceReply, tried: int) -> None:
        """Wait before the request is repeated, as long as the service asks for, at most MAX_WAIT_SECONDS."""
        requested = read_retry_after(reply.retry_after)
        sleep(min(2.0 ** (tried - 1) if requested is None else requested, MAX_WAIT_SECONDS))

    def read(self, reply: ServiceReply, form: type[T]) -> T:
        """Parse a response as the type `form`. Raises Fault if it is a refusal or does not fit that type."""
        if not 200 <= reply.status < 300:
            message = advise_refusal(self._service, reply.status, reply.content)
            raise Fault("environment", f"{self._label} answered with status {reply.status}: {message}")
        try:
            return form.model_validate_json(reply.content)
        except ValidationError as error:
            problem = "no JSON" if error.errors()[0]["type"] == "json_invalid" else "JSON of another form than expected"
            message = f"{self._label} answered with {problem} (status {reply.status}, {len(reply.content)} bytes)"
            raise Fault("environment", f"{message}: {self._service.advise_wrong_form()}") from None

    def answer(self, method: str, url: "httpx.URL | None" = None, **sent: Any) -> ServiceReply:
        """Send a request, again while the service is busy, and return the response, whatever its status.

        Raises:
            Fault: as `request` raises.
        """
        tries = 1
        while self.should_retry(reply := self.request(method, url, **sent), tries):
            self.wait(reply, tries)
            tries += 1
        return reply


def _service_name(url: "httpx.URL", label: str) -> str:
    """Return a name of the service at an address: its label, and a digest of the complete URL, which may be secret."""
    return f"{label} {hashlib.sha256(str(url).encode()).hexdigest()[:8]}"


def _create_client(auth: "httpx.Auth | None") -> "httpx.Client":
    import httpx

    try:
        return httpx.Client(auth=auth, headers=REQUEST_HEADERS)
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        # the error is not repeated, because a proxy's address may contain a password
        message = f"the proxy or the certificates that the environment names cannot be used ({type(error).__name__})"
        raise Fault("environment", f"{message}: correct or unset ALL_PROXY, HTTPS_PROXY and SSL_CERT_FILE") from None


def _is_busy(reply: ServiceReply) -> bool:
    return reply.status >= 500 or (reply.status == 429 and not is_spent(reply.status, reply.content))


# Base class of search providers over HTTP.

MAX_QUERY_CHARACTERS = 2_000
"""Maximum characters of a query: services refuse much longer ones, and a refusal would end the run."""


class HttpProvider(ABC):
    """Base class of search providers that use one HTTP service.

    Args:
        service: the service.
        headers: HTTP headers of every request, such as the one with the key.
        timeout: maximum seconds of one request.

    Raises:
        Fault: ("environment") the address of the service is invalid.
    """

    def __init__(self, service: SearchService, headers: Mapping[str, str], *, timeout: float = TRY_TIMEOUT) -> None:
        self._headers, self._requests = headers, ServiceClient(service, timeout=timeout)
        self.name = self._requests.name

    def search(self, query: str, k: int) -> Sequence[SearchHit]:
        """Return at most `k` results, best first; none for an empty query. Raises Fault as `ServiceClient.post`."""
        words = to_storable_line(query)[:MAX_QUERY_CHARACTERS]
        return to_hits(self._search(words, k), k) if words and k > 0 else []

    @abstractmethod
    def _search(self, words: str, k: int) -> Iterable[ServiceResult]:
        """Send the query to the service and return its results."""


# Google's results by Serper, or by any compatible service.

SERPER = SearchService(
    name="serper",
    variable="SERPER_URL",
    base_url="https://google.serper.dev/search",
    key="SERPER_API_KEY",
    key_page="https://serper.dev",
)


class _SerperResult(ServiceAnswer):
    title: str | None = None
    link: str | None = None
    snippet: str | None = None
    answer: str | None = None

    def to_result(self) -> ServiceResult:
        return ServiceResult(self.title, self.link, " ".join(filter(None, (self.answer, self.snippet))))


class _SerperAnswer(ServiceAnswer):
    organic: list[_SerperResult]
    answerBox: _SerperResult = _SerperResult()  # noqa: N815 - Serper's name


class Serper(HttpProvider):
    """Search provider Serper, at https://google.serper.dev/search or the address in SERPER_URL.

    The API key is in SERPER_API_KEY. Google's answer box, if there is one, is the first result.

    Args:
        service: Serper, or a service that answers like it.
        key: API key to use instead of the one in the environment.

    Raises:
        Fault: ("environment") the key is missing, or the address is invalid.
    """

    def __init__(self, service: SearchService = SERPER, *, key: str = "") -> None:
        super().__init__(service, {"X-API-KEY": key or service.secret()})

    def _search(self, words: str, k: int) -> Iterator[ServiceResult]:
        answer = self._requests.post(_SerperAnswer, {"q": words, "num": k}, self._headers)
        yield from (result.to_result() for result in (answer.answerBox, *answer.organic))


# Results of Brave Search, from its own index of the web.

BRAVE = SearchService(
    name="brave",
    variable="BRAVE_URL",
    base_url="https://api.search.brave.com/res/v1/web/search",
    key="BRAVE_API_KEY",
    key_page="https://api-dashboard.search.brave.com",
)
BRAVE_MAX_RESULTS = 20
BRAVE_MAX_WORDS = 50
BRAVE_MAX_QUERY = 400
"""Maximum characters of a query. Brave refuses requests that exceed one of the three limits above."""

_HIGHLIGHT = re.compile(r"</?strong>")


class _BraveResult(ServiceAnswer):
    title: str | None = None
    url: str | None = None
    description: str | None = None

    def to_result(self) -> ServiceResult:
        return ServiceResult(_strip_markup(self.title), self.url, _strip_markup(self.description))


class _BraveWeb(ServiceAnswer):
    results: list[_BraveResult]


class _BraveAnswer(ServiceAnswer):
    type: str
    web: _BraveWeb | None = None
    """The results; None if nothing was found."""


class Brave(HttpProvider):
    """Search provider Brave, at https://api.search.brave.com or the address in BRAVE_URL.

    The API key is in BRAVE_API_KEY. Only the first 50 words of a query are used; at most 20 results are returned.

    Raises:
        Fault: ("environment") the key is missing, or the address is invalid.
    """

    def __init__(self) -> None:
        super().__init__(BRAVE, {"X-Subscription-Token": BRAVE.secret()})

    def _search(self, words: str, k: int) -> Iterator[ServiceResult]:
        query = " ".join(words.split()[:BRAVE_MAX_WORDS])[:BRAVE_MAX_QUERY]
        params = {"q": query, "count": str(min(k, BRAVE_MAX_RESULTS))}
        answer = self._requests.get(_BraveAnswer, params, self._headers)
        yield from (result.to_result() for result in (answer.web.results if answer.web else ()))


def _strip_markup(text: str | None) -> str:
    return html.unescape(_HIGHLIGHT.sub("", text or ""))


# Results of the user's own SearXNG server, which queries many engines and needs no key.

SEARXNG = SearchService(name="searxng", variable="SEARXNG_URL", path="/search")


class _SearxngResult(ServiceAnswer):
    title: str | None = None
    url: str | None = None
    content: str | None = None

    def to_result(self) -> ServiceResult:
        return ServiceResult(self.title, self.url, self.content)


class _SearxngAnswer(ServiceAnswer):
    results: list[_SearxngResult]


class SearXNG(HttpProvider):
    """Search provider that queries the SearXNG server at SEARXNG_URL.

    The URL may contain a user name and a password. The server must have JSON output enabled. Only the first page of its
    results is used, about 20.

    Raises:
        Fault: ("environment") SEARXNG_URL is not set or invalid.
    """

    def __init__(self) -> None:
        super().__init__(SEARXNG, {})

    def _search(self, words: str, k: int) -> Iterator[ServiceResult]:
        answer = self._requests.get(_SearxngAnswer, {"q": words, "format": "json"})
        yield from (result.to_result() for result in answer.results)
