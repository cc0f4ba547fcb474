"""Search services over HTTP: Serper, Brave and SearXNG."""

import hashlib
import html
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from certigraph.adapters.http import PACKED, UnboundedAnswer, bound_answer
from certigraph.adapters.redaction import mask_logs, show_address
from certigraph.adapters.web.protocol import Found, Hit, hits
from certigraph.state.records import Fault
from certigraph.state.search import storable_line

if TYPE_CHECKING:
    import httpx


# A search service as the user names it: its address, its key, and what to do where one of them is missing.


@dataclass(frozen=True)
class Service:
    """Where a service is and who it lets in; variables are those of the environment."""

    name: str
    variable: str
    """Holds its address."""
    home: str = ""
    """Its address where the variable is not set; empty: it must be."""
    path: str = ""
    """What the address is to end in."""
    key: str = ""
    """The variable that holds the key; empty where it has none."""
    key_page: str = ""
    """Where one gets a key, and more of its quota."""

    @property
    def other(self) -> str:
        """How to ask another one instead."""
        return f"CERTIGRAPH_SEARCH={'serper' if self.name == 'searxng' else 'searxng'}"

    def address(self) -> "httpx.URL":
        """The parsed address; what is none is not shown, for it may hold a password.

        Raises:
            Fault: ("environment") it is not set, or not one of http or https.
        """
        import httpx

        given = os.environ.get(self.variable) or self.home
        if not given:
            example = f"export {self.variable}=http://localhost:8080"
            raise Fault(
                "environment", f"{self.name} needs an address: {example}, or name another provider: {self.other}"
            )
        try:
            address = httpx.URL(given)
            host = address.host
        except (httpx.InvalidURL, ValueError):  # ValueError: `xn--` before what is no name
            address, host = httpx.URL(), ""
        if address.scheme not in ("http", "https") or not host or (address.port or 1) > 65_535:
            raise Fault("environment", f"{self.variable} is not an address: export {self.variable}=https://HOST/...")
        bare = address.path.rstrip("/")
        return address.copy_with(path=bare if bare.endswith(self.path) else bare + self.path)

    def secret(self) -> str:
        """The key.

        Raises:
            Fault: ("environment") it is not set, or has characters that no key has.
        """
        key = os.environ.get(self.key, "")
        if not key:
            needed = f"{self.name} needs a key: export {self.key}=... ({self.key_page})"
            raise Fault("environment", f"{needed}, or name another provider: {self.other}")
        if not key.isascii() or not key.isprintable() or " " in key:
            odd = f"{self.key} has a blank, a line break or a letter outside ASCII"
            raise Fault("environment", f"{odd}: copy the key again from {self.key_page}")
        return key

    def unreached(self) -> str:
        """What to do where no answer comes."""
        return f"check the network and {self.variable}, then certigraph resume RUN, or begin anew: {self.other}"

    def misread(self) -> str:
        """What to do where an answer has another form."""
        return f"check that {self.variable} is the address of a service that answers as {self.name} does"


# What to do where a search service refuses. Its own words are searched for a few codes and never repeated.

_SPENT = re.compile(rb"not enough credits|QUOTA_LIMITED|insufficient_quota", re.IGNORECASE)
"""Serper, Brave and OpenAI, in that order; Brave names its quota's size with every refusal, so a word is not enough."""

_NO_KEY = re.compile(rb"SUBSCRIPTION_TOKEN_INVALID|invalid_api_key")
"""Brave says so with status 422."""


def is_spent(status: int, content: bytes) -> bool:
    """Whether a refusal says that the quota is spent, so that asking again is no use."""
    return status == 402 or (status < 500 and _SPENT.search(content) is not None)


def advice(service: Service, status: int, content: bytes) -> str:
    """In one line why a request was refused, as far as status and codes tell, and what to do."""
    # another one answers otherwise, so that what was done so far cannot be repeated with it
    on = f"then certigraph resume RUN, or begin anew with another provider: {service.other}"
    if is_spent(status, content):
        return f"the quota of {service.key or service.name} is spent: top it up at {service.key_page}, {on}"
    if status in (401, 403) or _NO_KEY.search(content):
        return f"{_refused(service, status)}, {on}"
    if status == 429:
        return f"it limits the rate, or the quota is spent: wait, or top it up, {on}"
    if status >= 500:
        return f"it failed itself: wait, {on}"
    return f"it takes no such request: check the provider's name and {service.variable}, {on}"


def _refused(service: Service, status: int) -> str:
    if not service.key:
        return f"add json to search.formats in its settings.yml, or the user's name and password to {service.variable}"
    # Serper answers 403 to a key that has nothing left, too
    spent = ", or its quota is spent" if status == 403 else ""
    return f"the key is refused{spent}: check {service.key} at {service.key_page}"


# Requests to a search service: its address and key, bounded tries, time and size, and faults that show no secret.

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


# What search providers over HTTP have in common: a service, its headers, and results that are bounded.

LONGEST_QUERY = 2_000
"""Characters; services refuse much longer ones, and what a refusal ends is the run."""


class HttpProvider(ABC):
    """A SearchProvider that asks one service.

    Raises:
        Fault: ("environment") what is set as the service's address is none.
    """

    def __init__(
        self, service: Service, headers: Mapping[str, str], *, timeout: float = TIMEOUT, sleep: Sleep = time.sleep
    ) -> None:
        self._headers, self._requests = headers, Requests(service, timeout=timeout, sleep=sleep)
        self.name = self._requests.name

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most `k` results, best first; none for a query without words. Raises Fault as `Requests` does."""
        words = storable_line(query)[:LONGEST_QUERY]
        return hits(self._found(words, k), k) if words and k > 0 else []

    @abstractmethod
    def _found(self, words: str, k: int) -> Iterable[Found]:
        """What the service answers."""


# Google's results by Serper, or by any service that answers as it does.

SERPER = Service(
    name="serper",
    variable="SERPER_URL",
    home="https://google.serper.dev/search",
    key="SERPER_API_KEY",
    key_page="https://serper.dev",
)


class _SerperResult(Form):
    title: str | None = None
    link: str | None = None
    snippet: str | None = None
    answer: str | None = None

    def found(self) -> Found:
        return Found(self.title, self.link, " ".join(filter(None, (self.answer, self.snippet))))


class _SerperAnswer(Form):
    organic: list[_SerperResult]
    answerBox: _SerperResult = _SerperResult()  # noqa: N815 - Serper's name


class Serper(HttpProvider):
    """Asks https://google.serper.dev/search, or the address in SERPER_URL, with the key in SERPER_API_KEY.

    A page that answers at once comes before all others.

    Args:
        service: one that answers as Serper does.
        key: in place of the service's own.
        sleep: waits between tries.

    Raises:
        Fault: ("environment") there is no key, or what is set as address is none.
    """

    def __init__(self, service: Service = SERPER, *, key: str = "", sleep: Sleep = time.sleep) -> None:
        super().__init__(service, {"X-API-KEY": key or service.secret()}, sleep=sleep)

    def _found(self, words: str, k: int) -> Iterator[Found]:
        answer = self._requests.post(_SerperAnswer, {"q": words, "num": k}, self._headers)
        yield from (result.found() for result in (answer.answerBox, *answer.organic))


# Results of Brave Search, from its own index of the web.

BRAVE = Service(
    name="brave",
    variable="BRAVE_URL",
    home="https://api.search.brave.com/res/v1/web/search",
    key="BRAVE_API_KEY",
    key_page="https://api-dashboard.search.brave.com",
)
MOST_RESULTS = 20
MOST_WORDS = 50
BRAVE_LONGEST_QUERY = 400
"""Characters. A request beyond one of these three is refused."""

_MARKS = re.compile(r"</?strong>")


class _BraveResult(Form):
    title: str | None = None
    url: str | None = None
    description: str | None = None

    def found(self) -> Found:
        return Found(_plain(self.title), self.url, _plain(self.description))


class _Web(Form):
    results: list[_BraveResult]


class _BraveAnswer(Form):
    type: str
    web: _Web | None = None
    """Missing where nothing was found."""


class Brave(HttpProvider):
    """Asks https://api.search.brave.com, or the address in BRAVE_URL, with the key in BRAVE_API_KEY.

    It takes the first 50 words of a query, and gives at most 20 results.

    Raises:
        Fault: ("environment") there is no key, or what is set as address is none.
    """

    def __init__(self, *, sleep: Sleep = time.sleep) -> None:
        super().__init__(BRAVE, {"X-Subscription-Token": BRAVE.secret()}, sleep=sleep)

    def _found(self, words: str, k: int) -> Iterator[Found]:
        query = " ".join(words.split()[:MOST_WORDS])[:BRAVE_LONGEST_QUERY]
        params = {"q": query, "count": str(min(k, MOST_RESULTS))}
        answer = self._requests.get(_BraveAnswer, params, self._headers)
        yield from (result.found() for result in (answer.web.results if answer.web else ()))


def _plain(text: str | None) -> str:
    return html.unescape(_MARKS.sub("", text or ""))


# Results of a SearXNG server of one's own, which asks many engines and needs no key.

SEARXNG = Service(name="searxng", variable="SEARXNG_URL", path="/search")


class _SearxngResult(Form):
    title: str | None = None
    url: str | None = None
    content: str | None = None

    def found(self) -> Found:
        return Found(self.title, self.url, self.content)


class _SearxngAnswer(Form):
    results: list[_SearxngResult]


class SearXNG(HttpProvider):
    """Asks the server at SEARXNG_URL, which may hold a user's name and password; its settings must allow JSON.

    It gives the first page of results, which has about 20.

    Raises:
        Fault: ("environment") SEARXNG_URL is not set, or no address.
    """

    def __init__(self, *, sleep: Sleep = time.sleep) -> None:
        super().__init__(SEARXNG, {}, sleep=sleep)

    def _found(self, words: str, k: int) -> Iterator[Found]:
        answer = self._requests.get(_SearxngAnswer, {"q": words, "format": "json"})
        yield from (result.found() for result in answer.results)
