"""The web that an agent uses: search providers by name, local pages, models that search, and the cache.

`create_providers` creates search providers by name; `Web` combines search providers, a page source and a cache.
"""

import hashlib
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote_to_bytes

from langchain_core.messages import HumanMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from pydantic import Field, TypeAdapter, ValidationError

from certigraph.adapters.files import CacheFile, cache_folder, expand_path
from certigraph.adapters.http import PageRefused
from certigraph.adapters.models.chat_models import REQUEST_TIMEOUT, chat_model
from certigraph.adapters.models.exchanges import Exchange
from certigraph.adapters.models.prices import ListPrice, Price, cached_tokens, cost_in_usd, price_of
from certigraph.adapters.models.usage import Call, current_meter, has_plausible_counts, usage_of
from certigraph.adapters.redaction import redact_value
from certigraph.adapters.retrieval.bm25 import PassagePool
from certigraph.adapters.web.pages import PageContent, decode_body, read_page
from certigraph.adapters.web.protocol import (
    MAX_TITLE_CHARACTERS,
    PageSource,
    SearchHit,
    SearchProvider,
    ServiceResult,
    Unreadable,
    WebPage,
    clip_line,
    search_pages,
)
from certigraph.adapters.web.search import (
    BRAVE,
    SEARXNG,
    SERPER,
    Brave,
    HttpProvider,
    SearchService,
    SearXNG,
    Serper,
    ServiceAnswer,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.search import Passage

# Chat completions that cite web pages, and the sentence to which each citation belongs.

_LINK = re.compile(r"\s*\(?\[[^\]]*\]\([^)\s]*\)\)?")
"""Citation as models that search write it: `([site.org](https://site.org/page))`."""

_SENTENCE_END = re.compile(r"[.!?][\"')\]]?(?=\s|$)|\n")

MAX_SENTENCE_DISTANCE = 2_000
"""Maximum characters before and after a citation in which the end of its sentence is searched for."""

_TRACKING_SUFFIX = re.compile(r"[?&]utm_source=openai$")
"""Suffix that OpenAI adds to every cited URL. It is removed, so that a page has the same URL for all providers."""


class _Citation(ServiceAnswer):
    title: str | None = None
    url: str | None = None
    start_index: int = 0
    end_index: int = 0


class _Annotation(ServiceAnswer):
    url_citation: _Citation | None = None
    """The citation; None for annotations of other types."""


class _Message(ServiceAnswer):
    content: str | None = None
    annotations: list[_Annotation] | None = None


class _CompletionChoice(ServiceAnswer):
    message: _Message


class CitingCompletion(ServiceAnswer):
    """Parsed chat completion of a model that searches the web and cites pages."""

    choices: list[_CompletionChoice] = Field(min_length=1)
    usage: Any = None

    def to_results(self) -> Iterator[ServiceResult]:
        """Yield the pages that the answer cites, each with the sentence that contains the citation as its snippet."""
        message = self.choices[0].message
        for cited in (annotation.url_citation for annotation in message.annotations or []):
            if cited:
                citing_sentence = sentence_at(message.content or "", max(0, cited.start_index), max(0, cited.end_index))
                yield ServiceResult(cited.title, _TRACKING_SUFFIX.sub("", cited.url or ""), citing_sentence)

    @property
    def text(self) -> str:
        """Text of the answer, with its citations."""
        return self.choices[0].message.content or ""

    def used(self) -> UsageMetadata | None:
        """Return the token usage; None if the endpoint sends no plausible counts."""
        usage = self.usage
        if not isinstance(usage, dict) or not has_plausible_counts(usage):
            return None
        read, written = usage["prompt_tokens"], usage["completion_tokens"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        details = InputTokenDetails(cache_read=cached)
        return UsageMetadata(
            input_tokens=read, output_tokens=written, total_tokens=read + written, input_token_details=details
        )


def sentence_at(content: str, start: int, end: int) -> str:
    """Return the sentence to which a citation belongs.

    It contains the characters `start` to `end`; if these are a link that follows the end of a sentence, it is that
    previous sentence.
    """
    parts = (
        content[max(0, start - MAX_SENTENCE_DISTANCE) : start],
        content[start:end][:MAX_SENTENCE_DISTANCE],
        content[end:][:MAX_SENTENCE_DISTANCE],
    )
    before, cited, after = (_LINK.sub("", part) for part in parts)
    is_link = not cited.strip()
    if is_link:
        before, after = before.rstrip(" ([\t\n"), after.lstrip(")]")
    sentence_ends = [0, *(next_end.end() for next_end in _SENTENCE_END.finditer(before))]
    if is_link and len(sentence_ends) > 1 and sentence_ends[-1] == len(before):
        return before[sentence_ends[-2] :].strip()
    rest = cited + after
    next_end = _SENTENCE_END.search(rest, max(0, len(cited.rstrip()) - 1))
    return f"{before[sentence_ends[-1] :]}{rest[: next_end.end()] if next_end else rest}".strip()


# A model that searches the web itself: its citations are the results (Chat Completions with web_search_options).

ENDPOINT_VARIABLE = "CERTIGRAPH_BASE_URL"
PROMPT = """Search the web for: {query}

Name at most {k} different pages that help most. Write one sentence for each, with the facts that it gives about this,
and cite it."""


class ModelSearch(HttpProvider):
    """Search provider that asks a model such as `gpt-4o-search-preview`, which searches the web itself.

    The model is at OpenAI, or at the endpoint in CERTIGRAPH_BASE_URL, which may need no key. The API key is in
    OPENAI_API_KEY. Results are the pages that the model cites, each with the sentence that cites it. A search counts as
    a model call, and raises LimitReached if the run's budget does not allow another call.

    Raises:
        Fault: ("environment") the key is missing, or the address is invalid.
    """

    def __init__(self, model: str) -> None:
        self._model, self._label = model, f"openai:{model}"
        service = SearchService(
            name=self._label,
            variable=ENDPOINT_VARIABLE,
            base_url="https://api.openai.com/v1",
            path="/chat/completions",
            key="OPENAI_API_KEY",
            key_page="https://platform.openai.com/api-keys",
        )
        needed = not os.environ.get(ENDPOINT_VARIABLE) or os.environ.get(service.key)
        headers = {"Authorization": f"Bearer {service.secret()}"} if needed else {}
        super().__init__(service, headers, timeout=REQUEST_TIMEOUT)

    def _search(self, words: str, k: int) -> Iterator[ServiceResult]:
        prompt = PROMPT.format(query=words, k=k)
        messages = [{"role": "user", "content": prompt}]
        body: dict[str, object] = {"model": self._model, "messages": messages, "web_search_options": {}}
        return self._completion(body, prompt).to_results()

    def _completion(self, body: dict[str, object], prompt: str) -> CitingCompletion:
        """Request the completion, again while the endpoint is busy. Every request counts as a call in the budget."""
        call = Call(role="search", model=self._model, schema_name="citations")
        tries = 1
        while True:
            started, exchange = time.perf_counter(), Exchange([HumanMessage(prompt)])
            tokens = count_tokens_approximately(exchange.messages)
            with current_meter().open_call(call, self._price(), exchange, prompt_tokens=tokens) as opened:
                reply = self._requests.request("POST", json=body, headers=self._headers)
                duration = {"seconds": time.perf_counter() - started}
                if not self._requests.should_retry(reply, tries):
                    completion = self._requests.read(reply, CitingCompletion)
                    exchange.reply = completion.text
                    opened.settle(call.model_copy(update=self._usage(completion, prompt) | duration))
                    return completion
                opened.settle(call.model_copy(update=duration | {"failure": f"status {reply.status}"}))
            self._requests.wait(reply, tries)
            tries += 1

    def _usage(self, completion: CitingCompletion, prompt: str) -> dict[str, float]:
        usage = usage_of(completion.used(), [HumanMessage(prompt)], completion.text)
        return {
            "input_tokens": usage["input_tokens"],
            "output_tokens": usage["output_tokens"],
            "cached_tokens": cached_tokens(usage),
            "usd": cost_in_usd(self._price(), usage),
        }

    def _price(self) -> Price | ListPrice | None:
        return price_of(chat_model(self._label))


# A folder of pages: searched by BM25, and read by addresses such as `local:guides/gyms.html`.

LOCAL_SCHEME = "local:"
HTML_SUFFIXES = (".html", ".htm")
PAGE_SUFFIXES = (*HTML_SUFFIXES, ".md", ".txt")
MAX_FILES = 5_000
MAX_FILE_BYTES = 2_000_000
"""Maximum size of a file in bytes; a larger one is neither found nor read."""

_HEADING = re.compile(r"#+ +(.+)")


class _File(NamedTuple):
    """A file in the folder: its path relative to the folder, and size and time of change, to detect new contents."""

    relative: str
    size: int
    changed: int


class LocalPages:
    """Search provider and page source over the .html, .htm, .md and .txt files in a folder.

    Hidden files, and links that lead out of the folder, are left out. When files change, the index is built again.

    Raises:
        Fault: ("environment") the folder is missing, has no such file, or has more than 5,000 of them.
    """

    name = "local"

    def __init__(self, folder: str | Path) -> None:
        self._root = expand_path(folder).resolve()
        self._index = lru_cache(maxsize=1)(self._build_index)
        self._files()

    def search(self, query: str, k: int) -> list[SearchHit]:
        """Return at most `k` pages that share a word with the query, best first.

        Raises:
            Fault: as the constructor raises, or no file has a text that can be read.
        """
        return search_pages(self._index(self._files()), query, k)

    def page(self, url: str) -> WebPage | Unreadable:
        """Return the page at an address that `search` returned; for other addresses, an Unreadable."""
        address = url.partition("#")[0]
        relative = os.fsdecode(unquote_to_bytes(address.removeprefix(LOCAL_SCHEME).encode(errors="surrogatepass")))
        path = self._inside(relative) if address.startswith(LOCAL_SCHEME) else None
        if path is None:
            return Unreadable(url=url, reason="no page of this folder")
        try:
            title, text = _read_page(path, _read_content(path))
        except PageRefused as refused:
            return Unreadable(url=url, reason=refused.reason)
        return WebPage(url=url, title=clip_line(title, MAX_TITLE_CHARACTERS) or _file_stem(path), text=text)

    def _files(self) -> tuple[_File, ...]:
        files = tuple(sorted(self._walk()))
        if not files:
            advice = f"put {', '.join(PAGE_SUFFIXES)} files there, or name another folder: local:FOLDER"
            raise Fault("environment", f"no page to search in {self._root}: {advice}")
        if len(files) > MAX_FILES:
            hint = "name a smaller folder: local:FOLDER"
            raise Fault("environment", f"{len(files)} pages in {self._root}, at most {MAX_FILES} fit: {hint}")
        return files

    def _walk(self) -> Iterator[_File]:
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                relative = (Path(folder) / name).relative_to(self._root).as_posix()
                if path := self._inside(relative):
                    stat = path.stat()
                    yield _File(relative, stat.st_size, stat.st_mtime_ns)

    def _inside(self, relative: str) -> Path | None:
        """Return the resolved path of a file, or None if it is not a visible page or a link leads out of the folder."""
        try:
            path = (self._root / relative).resolve()
            resolved_parts = path.relative_to(self._root).parts
            is_visible = not any(part.startswith(".") for part in (*relative.split("/"), *resolved_parts))
            return path if is_visible and path.suffix.lower() in PAGE_SUFFIXES and path.is_file() else None
        # a NUL, a name that is too long, circular links, a path that leads out of the folder
        except (OSError, RuntimeError, ValueError):
            return None

    def _build_index(self, files: tuple[_File, ...]) -> PassagePool:
        urls = (LOCAL_SCHEME + quote(os.fsencode(file.relative)) for file in files)
        pages = [page for page in map(self.page, urls) if isinstance(page, WebPage)]
        if not pages:
            raise Fault("environment", f"none of {len(files)} pages in {self._root} has a text that can be read")
        return PassagePool([Passage(id=page.url, title=page.title, text=page.text) for page in pages])


def _read_content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PageRefused(f"cannot be opened ({type(error).__name__})") from error
    if len(content) > MAX_FILE_BYTES:
        raise PageRefused(f"more than {MAX_FILE_BYTES // 1_000_000} MB")
    return content


def _read_page(path: Path, content: bytes) -> PageContent:
    kind = path.suffix.lower()
    if kind in HTML_SUFFIXES:
        return read_page(content, "text/html")
    text = decode_body(content, "utf-8").strip()
    if not text or "\0" in text:
        raise PageRefused("no text")
    heading = _HEADING.match(text) if kind == ".md" else None
    return PageContent(heading[1] if heading else "", text)


def _file_stem(path: Path) -> str:
    # file names may not be UTF-8
    return os.fsencode(path.stem).decode(errors="replace")


# Search providers by name.

SEARCH_VARIABLE = "CERTIGRAPH_SEARCH"
PROVIDER_FORMS = (
    "serper, brave, searxng, openai:gpt-4o-search-preview, local:FOLDER, or several with commas between them"
)

SIMPLE_PROVIDERS: dict[str, Callable[[], SearchProvider]] = {"serper": Serper, "brave": Brave, "searxng": SearXNG}
"""Providers without a parameter, in order of preference."""

PARAMETER_PROVIDERS: dict[str, Callable[[str], SearchProvider]] = {"openai": ModelSearch, "local": LocalPages}
"""Providers with a parameter, as in `local:FOLDER`: functions by the name before the colon, called with the text after
it."""

PROVIDER_VARIABLES = {"serper": SERPER.key, "brave": BRAVE.key, "searxng": SEARXNG.variable}
"""Environment variable that must be set for each provider without a parameter."""

NO_PROVIDER = (
    f"no search provider: export {SERPER.key}=... ({SERPER.key_page}), {BRAVE.key}=... ({BRAVE.key_page}) or "
    f"{SEARXNG.variable}=http://localhost:8080 (https://docs.searxng.org), or search a folder of pages: "
    f"{SEARCH_VARIABLE}=local:FOLDER"
)


def create_providers(names: str = "") -> list[SearchProvider]:
    """Create search providers from their names.

    Args:
        names: names as in PROVIDER_FORMS, separated by commas. If empty, the names in CERTIGRAPH_SEARCH are used; if
            that is unset too, those of serper, brave and searxng whose key or address is set.

    Returns:
        The providers. `Web` searches with the first one, and uses the second one as another source of evidence.

    Raises:
        UnknownName: a name has none of the forms.
        Fault: ("environment") there is no provider, or one lacks its key, address or folder. The message says what to
            set.
    """
    explicit = _split_names(names) or _split_names(os.environ.get(SEARCH_VARIABLE, ""))
    chosen = explicit or [name for name, variable in PROVIDER_VARIABLES.items() if os.environ.get(variable)]
    if not chosen:
        raise Fault("environment", NO_PROVIDER)
    return [_create_provider(name) for name in dict.fromkeys(chosen)]


def _split_names(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _create_provider(name: str) -> SearchProvider:
    kind, _, part = name.partition(":")
    if name in SIMPLE_PROVIDERS:
        return SIMPLE_PROVIDERS[name]()
    if kind in PARAMETER_PROVIDERS and part:
        return PARAMETER_PROVIDERS[kind](part)
    raise UnknownName(f"unknown search provider {name!r}; the forms are {PROVIDER_FORMS}")


# Cache of the web on disk: a run that was killed finds the same web again and repeats no request.
#
# Answers are never replaced: the one returned is the earliest since the run started to accept answers (`since`). So a
# resumed run sees what it saw before, whatever other runs stored in the meantime.

CACHE_VARIABLE = "CERTIGRAPH_WEB_CACHE"
CACHE_VERSION = 1

T = TypeVar("T")

HITS_TYPE: TypeAdapter[tuple[SearchHit, ...]] = TypeAdapter(tuple[SearchHit, ...])
PAGE_TYPE: TypeAdapter[WebPage | Unreadable] = TypeAdapter(WebPage | Unreadable)


class WebCache(NamedTuple):
    """Cache of search results and pages in an SQLite file.

    The key of an entry is the name of the provider or page source, and the request.
    """

    folder: Path
    name: str = "web"
    """Name of the file without suffix. A generated web has a file of its own."""
    since: float = 0.0
    """Time in seconds since 1970; answers stored earlier are ignored."""

    def get(self, who: str, request: str, form: TypeAdapter[T], ask: Callable[[], T]) -> T:
        """Return the cached answer to a request; without one, call `ask` and store what it returns.

        Of several processes that send the request at the same time, all get the answer that is stored first.

        Args:
            who: name of the provider or page source.
            request: the request, such as a query or a URL.
            form: type of the answer.
            ask: function that sends the request. If it raises, nothing is stored.

        Raises:
            Fault: ("data") the file is not a cache of the web.
        """
        # a model's query may contain unpaired surrogates
        key = hashlib.sha256(f"{who}\n{request}".encode(errors="surrogatepass")).hexdigest()
        file = self._file()
        if (stored := file.use(lambda connection: _load_answer(connection, key, self.since))) is None:
            answer = form.dump_json(redact_value(ask()), exclude_defaults=True).decode()
            stored = file.use(lambda connection: _store_answer(connection, key, answer, self.since))
        try:
            return form.validate_json(stored)
        except ValidationError:
            raise file.create_fault("an answer in it has another form") from None

    def _file(self) -> CacheFile:
        return CacheFile(
            self.folder / f"{self.name}.sqlite",
            tables="CREATE TABLE answers (key TEXT, at REAL, answer TEXT NOT NULL, PRIMARY KEY (key, at))",
            version=CACHE_VERSION,
            what="a cache of the web",
            fix=f"delete it, or name another folder: export {CACHE_VARIABLE}=FOLDER",
        )


def web_cache(name: str = "web", *, since: float = 0.0) -> WebCache:
    """Return the cache in the folder CERTIGRAPH_WEB_CACHE, or in the user's cache folder if that is unset."""
    folder = os.environ.get(CACHE_VARIABLE)
    return WebCache(expand_path(folder) if folder else cache_folder() / "web", name, since)


def _load_answer(connection: sqlite3.Connection, key: str, since: float) -> str | None:
    statement = "SELECT answer FROM answers WHERE key = ? AND at >= ? ORDER BY at LIMIT 1"
    row = connection.execute(statement, (key, since)).fetchone()
    return str(row[0]) if row else None


def _store_answer(connection: sqlite3.Connection, key: str, answer: str, since: float) -> str:
    """Store an answer and return it. If another process stored one in the meantime, return that one instead."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")  # makes the lookup and the insertion atomic
        if (stored := _load_answer(connection, key, since)) is not None:
            return stored
        # a clock that was set back must not hide the answer, nor order it before earlier ones
        connection.execute("INSERT INTO answers VALUES (?, ?, ?)", (key, max(time.time(), since), answer))
    return answer


# The web that an agent uses: search, a second source of evidence, and pages. With a cache every request is sent once.

MAX_PARALLEL_PAGES = 4
"""Maximum number of pages that are fetched in parallel."""

SEARCH_SIGNATURE = "search(query, k) returns a list of Hit(title, url, snippet)"
PAGE_SIGNATURE = "page(url) returns Page(url, title, text) or Unreadable(url, reason)"


class Web:
    """The web that an agent uses: search providers, a page source and a cache. Methods block as long as these do.

    Args:
        providers: the first one is searched; the second one, if given, is another source of evidence.
        pages: page source. If one provider is a folder (`LocalPages`), its pages are read from the folder instead.
        cache: cache of results and pages; None disables it. Results and pages of a folder are never cached.
        note: what an agent has to know of it in a line; empty for the live web.

    Attributes:
        provider: the first provider.
        second: the second provider, or None.
        note: as given.
    """

    def __init__(
        self, providers: Sequence[SearchProvider], pages: PageSource, cache: WebCache | None, *, note: str = ""
    ) -> None:
        self.note = note
        self.provider, self.second = providers[0], (providers[1] if len(providers) > 1 else None)
        self._local = next((provider for provider in providers if isinstance(provider, LocalPages)), None)
        self._pages, self._cache = pages, cache

    def search(self, provider: SearchProvider, query: str, k: int) -> Sequence[SearchHit]:
        """Return at most `k` results of one of the two providers.

        Raises:
            Fault: as the provider raises; ("environment") the provider returned something else than results.
        """
        if self._cache is None or provider is self._local:
            return _validate_answer(HITS_TYPE, provider.search(query, k), SEARCH_SIGNATURE)
        return self._cache.get(provider.name, f"{k}\n{query}", HITS_TYPE, lambda: tuple(provider.search(query, k)))

    def read(self, urls: Sequence[str]) -> list[WebPage | Unreadable]:
        """Read the pages at some URLs, up to four in parallel. They are returned in order, with the requested URLs."""
        if not urls:
            return []
        with ThreadPoolExecutor(MAX_PARALLEL_PAGES) as pool:
            pages = pool.map(self._page, urls)
        return [page.model_copy(update={"url": url}) for url, page in zip(urls, pages, strict=True)]

    def _page(self, url: str) -> WebPage | Unreadable:
        if self._local and url.startswith(LOCAL_SCHEME):
            return self._local.page(url)
        if self._cache is None:
            return _validate_answer(PAGE_TYPE, self._pages.page(url), PAGE_SIGNATURE)
        return self._cache.get(self._pages.name, url, PAGE_TYPE, lambda: self._pages.page(url))


def _validate_answer(form: TypeAdapter[T], answer: object, expected: str) -> T:
    """Validate what a provider or page source returned, which a user may have written; plain dicts are accepted.

    Raises:
        Fault: ("environment") it does not fit the type `form`.
    """
    try:
        return form.validate_python(answer)
    except ValidationError as error:
        raise Fault("environment", f"a search provider or page source returned {answer!r:.80}: {expected}") from error
