"""The web of one question: providers by name, a folder of pages, models that search, and the cache."""

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

from certigraph.adapters.files import CacheFile, cache_folder, expanded
from certigraph.adapters.http import Refused
from certigraph.adapters.models.chat_models import TIMEOUT, chat_model
from certigraph.adapters.models.usage import (
    Call,
    Price,
    cached_tokens,
    credible,
    current_meter,
    price_of,
    usage_of,
    usd,
)
from certigraph.adapters.redaction import redacted_value
from certigraph.adapters.retrieval.bm25 import Pool
from certigraph.adapters.web.pages import Readable, decoded, readable
from certigraph.adapters.web.protocol import (
    LONGEST_TITLE,
    Found,
    Hit,
    Page,
    PageSource,
    SearchProvider,
    Unreadable,
    found_in,
    one_line,
)
from certigraph.adapters.web.search import (
    BRAVE,
    SEARXNG,
    SERPER,
    Brave,
    Form,
    HttpProvider,
    SearXNG,
    Serper,
    Service,
    Sleep,
)
from certigraph.state.records import Fault, UnknownName
from certigraph.state.search import Passage

# The form of a chat completion that cites the web, and the sentence that each citation stands by.

_LINK = re.compile(r"\s*\(?\[[^\]]*\]\([^)\s]*\)\)?")
"""A citation as these models write it: `([site.org](https://site.org/page))`."""

_STOP = re.compile(r"[.!?][\"')\]]?(?=\s|$)|\n")

NEAR = 2_000
"""Characters on either side of a citation in which its sentence is looked for."""

_CAMPAIGN = re.compile(r"[?&]utm_source=openai$")
"""Added to every address that is cited; a page has one address, whoever cites it."""


class _Cited(Form):
    title: str | None = None
    url: str | None = None
    start_index: int = 0
    end_index: int = 0


class _Annotation(Form):
    url_citation: _Cited | None = None
    """Missing in annotations of other types."""


class _Message(Form):
    content: str | None = None
    annotations: list[_Annotation] | None = None


class _Choice(Form):
    message: _Message


class Completion(Form):
    """What is read of an answer."""

    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None

    def found(self) -> Iterator[Found]:
        """The pages that the answer cites, each with the sentence it is cited for."""
        message = self.choices[0].message
        for cited in (annotation.url_citation for annotation in message.annotations or []):
            if cited:
                said = sentence(message.content or "", max(0, cited.start_index), max(0, cited.end_index))
                yield Found(cited.title, _CAMPAIGN.sub("", cited.url or ""), said)

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.choices[0].message.content or ""

    def used(self) -> UsageMetadata | None:
        """The tokens that are billed; None where the endpoint sends no counts that can be used."""
        used = self.usage
        if not isinstance(used, dict) or not credible(used):
            return None
        read, written = used["prompt_tokens"], used["completion_tokens"]
        cached = (used.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        details = InputTokenDetails(cache_read=cached)
        return UsageMetadata(
            input_tokens=read, output_tokens=written, total_tokens=read + written, input_token_details=details
        )


def sentence(content: str, start: int, end: int) -> str:
    """The sentence that characters `start` to `end` stand in; the one before where they are a link after its stop."""
    parts = content[max(0, start - NEAR) : start], content[start:end][:NEAR], content[end:][:NEAR]
    before, cited, after = (_LINK.sub("", part) for part in parts)
    link = not cited.strip()
    if link:
        before, after = before.rstrip(" ([\t\n"), after.lstrip(")]")
    stops = [0, *(stop.end() for stop in _STOP.finditer(before))]
    if link and len(stops) > 1 and stops[-1] == len(before):
        return before[stops[-2] :].strip()
    rest = cited + after
    stop = _STOP.search(rest, max(0, len(cited.rstrip()) - 1))
    return f"{before[stops[-1] :]}{rest[: stop.end()] if stop else rest}".strip()


# A model that searches the web itself: its citations are the results (Chat Completions with web_search_options).

ENDPOINT = "CERTIGRAPH_BASE_URL"
PROMPT = """Search the web for: {query}

Name at most {k} different pages that help most. Write one sentence for each, with the facts that it gives about this,
and cite it."""


class Asked(HttpProvider):
    """Asks a model such as `gpt-4o-search-preview` at OpenAI, or the endpoint at CERTIGRAPH_BASE_URL.

    The key is in OPENAI_API_KEY; another endpoint may need none. Results are the pages that the model cites, with the
    sentence it cites each for. A search raises LimitReached, too, where the run's budget has no room for another call.

    Raises:
        Fault: ("environment") there is no key, or what is set as address is none.
    """

    def __init__(self, model: str, *, sleep: Sleep = time.sleep) -> None:
        self._model, self._label = model, f"openai:{model}"
        service = Service(
            name=self._label,
            variable=ENDPOINT,
            home="https://api.openai.com/v1",
            path="/chat/completions",
            key="OPENAI_API_KEY",
            key_page="https://platform.openai.com/api-keys",
        )
        needed = not os.environ.get(ENDPOINT) or os.environ.get(service.key)
        headers = {"Authorization": f"Bearer {service.secret()}"} if needed else {}
        super().__init__(service, headers, timeout=TIMEOUT, sleep=sleep)

    def _found(self, words: str, k: int) -> Iterator[Found]:
        prompt = PROMPT.format(query=words, k=k)
        messages = [{"role": "user", "content": prompt}]
        body: dict[str, object] = {"model": self._model, "messages": messages, "web_search_options": {}}
        return self._completion(body, prompt).found()

    def _completion(self, body: dict[str, object], prompt: str) -> Completion:
        """The answer; every request is a call of the budget, one that the service was too busy for as well."""
        call = Call(role="search", model=self._model, schema_name="citations")
        tried = 1
        while True:
            started = time.perf_counter()
            with current_meter().calling(call, self._price(), prompt_tokens=_tokens(prompt)) as opened:
                reply = self._requests.request("POST", json=body, headers=self._headers)
                taken = {"seconds": time.perf_counter() - started}
                if not self._requests.waits(reply, tried):
                    completion = self._requests.read(reply, Completion)
                    opened.settle(call.model_copy(update=self._bill(completion, prompt) | taken))
                    return completion
                opened.settle(call.model_copy(update=taken | {"failure": f"status {reply.status}"}))
            self._requests.wait(reply, tried)
            tried += 1

    def _bill(self, completion: Completion, prompt: str) -> dict[str, float]:
        used = usage_of(completion.used(), [HumanMessage(prompt)], completion.text)
        return {
            "input_tokens": used["input_tokens"],
            "output_tokens": used["output_tokens"],
            "cached_tokens": cached_tokens(used),
            "usd": usd(self._price(), used),
        }

    def _price(self) -> Price | None:
        return price_of(chat_model(self._label))


def _tokens(prompt: str) -> int:
    return count_tokens_approximately([HumanMessage(prompt)])


# A folder of pages as a web of its own: searched by BM25, read by addresses such as `local:guides/gyms.html`.

SCHEME = "local:"
HTML = (".html", ".htm")
SUFFIXES = (*HTML, ".md", ".txt")
MOST_FILES = 5_000
MOST_BYTES = 2_000_000
"""Of one file; a larger one is neither found nor read."""

_HEADING = re.compile(r"#+ +(.+)")


class _File(NamedTuple):
    """A file below the folder, and what changes when it does."""

    relative: str
    size: int
    changed: int


class LocalPages:
    """The .html, .htm, .md and .txt files below a folder, without hidden ones and links that lead out of it.

    Both a search provider and a source of pages. Files may change: the index is built again when one did.

    Raises:
        Fault: ("environment") there is no such folder, it has no such file, or more than 5,000 of them.
    """

    name = "local"

    def __init__(self, folder: str | Path) -> None:
        self._root = expanded(folder).resolve()
        self._index = lru_cache(maxsize=1)(self._built)
        self._files()

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` pages that share a word with the query, best first. Raises Fault as the constructor does."""
        return found_in(self._index(self._files()), query, k)

    def page(self, url: str) -> Page | Unreadable:
        """The page of an address that `search` gave; no other address leads anywhere."""
        address = url.partition("#")[0]
        relative = os.fsdecode(unquote_to_bytes(address.removeprefix(SCHEME).encode(errors="surrogatepass")))
        path = self._inside(relative) if address.startswith(SCHEME) else None
        if path is None:
            return Unreadable(url=url, reason="no page of this folder")
        try:
            title, text = _text(path, _content(path))
        except Refused as refused:
            return Unreadable(url=url, reason=refused.reason)
        return Page(url=url, title=one_line(title, LONGEST_TITLE) or _stem(path), text=text)

    def _files(self) -> tuple[_File, ...]:
        files = tuple(sorted(self._walk()))
        if not files:
            wanted = f"put {', '.join(SUFFIXES)} files there, or name another folder: local:FOLDER"
            raise Fault("environment", f"no page to search in {self._root}: {wanted}")
        if len(files) > MOST_FILES:
            narrow = "name a smaller folder: local:FOLDER"
            raise Fault("environment", f"{len(files)} pages in {self._root}, at most {MOST_FILES} fit: {narrow}")
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
        """The file, where the path and what it links to are pages below the folder."""
        try:
            path = (self._root / relative).resolve()
            real = path.relative_to(self._root).parts
            shown = not any(part.startswith(".") for part in (*relative.split("/"), *real))
            return path if shown and path.suffix.lower() in SUFFIXES and path.is_file() else None
        # a NUL, a name that is too long, links in a circle, a path that leads out
        except (OSError, RuntimeError, ValueError):
            return None

    def _built(self, files: tuple[_File, ...]) -> Pool:
        urls = (SCHEME + quote(os.fsencode(file.relative)) for file in files)
        pages = [page for page in map(self.page, urls) if isinstance(page, Page)]
        if not pages:
            raise Fault("environment", f"none of {len(files)} pages in {self._root} has a text that can be read")
        return Pool([Passage(id=page.url, title=page.title, text=page.text) for page in pages])


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Refused(f"cannot be opened ({type(error).__name__})") from error
    if len(content) > MOST_BYTES:
        raise Refused(f"more than {MOST_BYTES // 1_000_000} MB")
    return content


def _text(path: Path, content: bytes) -> Readable:
    kind = path.suffix.lower()
    if kind in HTML:
        return readable(content, "text/html")
    text = decoded(content, "utf-8").strip()
    if not text or "\0" in text:
        raise Refused("no text")
    heading = _HEADING.match(text) if kind == ".md" else None
    return Readable(heading[1] if heading else "", text)


def _stem(path: Path) -> str:
    # a name need not be UTF-8
    return os.fsencode(path.stem).decode(errors="replace")


# A provider's name -> the provider. What is asked is named, or follows from which keys are set.

SEARCH_VARIABLE = "CERTIGRAPH_SEARCH"
FORMS = "serper, brave, searxng, openai:gpt-4o-search-preview, local:FOLDER, or several with commas between them"

PLAIN: dict[str, Callable[[], SearchProvider]] = {"serper": Serper, "brave": Brave, "searxng": SearXNG}
"""By name, in the order in which they are taken where none is named."""

WITH_PART: dict[str, Callable[[str], SearchProvider]] = {"openai": Asked, "local": LocalPages}
"""By what stands before the colon; made from what stands behind it."""

SETTINGS = {"serper": SERPER.key, "brave": BRAVE.key, "searxng": SEARXNG.variable}
"""The variable that makes each of the plain ones usable."""

NONE = (
    f"no search provider: export {SERPER.key}=... ({SERPER.key_page}), {BRAVE.key}=... ({BRAVE.key_page}) or "
    f"{SEARXNG.variable}=http://localhost:8080 (https://docs.searxng.org), or search a folder of pages: "
    f"{SEARCH_VARIABLE}=local:FOLDER"
)


def providers(names: str = "") -> list[SearchProvider]:
    """The providers of some names; the first is searched, the second is another source of evidence.

    Args:
        names: of FORMS. Empty: those in CERTIGRAPH_SEARCH, else serper, brave and searxng as far as their
            variables are set.

    Raises:
        UnknownName: a name has none of the forms.
        Fault: ("environment") there is none, or one lacks its key, address or folder; the message says what to set.
    """
    named = _listed(names) or _listed(os.environ.get(SEARCH_VARIABLE, ""))
    chosen = named or [name for name, variable in SETTINGS.items() if os.environ.get(variable)]
    if not chosen:
        raise Fault("environment", NONE)
    return [_provider(name) for name in dict.fromkeys(chosen)]


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _provider(name: str) -> SearchProvider:
    kind, _, part = name.partition(":")
    if name in PLAIN:
        return PLAIN[name]()
    if kind in WITH_PART and part:
        return WITH_PART[kind](part)
    raise UnknownName(f"no search provider is called {name!r}; the forms are {FORMS}")


# What the web answered, kept on disk, so that a run which was killed finds the same web again and asks nothing twice.
#
# Nothing is replaced: an answer is found by when the run began to accept answers (`since`), and of those kept since
# then it is the earliest. So a resumed run sees what it saw before, whatever others asked in the meantime.

CACHE_VARIABLE = "CERTIGRAPH_WEB_CACHE"
LAYOUT = 1

T = TypeVar("T")

HITS: TypeAdapter[tuple[Hit, ...]] = TypeAdapter(tuple[Hit, ...])
PAGE: TypeAdapter[Page | Unreadable] = TypeAdapter(Page | Unreadable)


class WebCache(NamedTuple):
    """Answers by who is asked, a provider or a source of pages by its name, and for what."""

    folder: Path
    name: str = "web"
    """Of the file; a web that is not the one out there has a file of its own."""
    since: float = 0.0
    """Seconds since 1970: what was kept before is too old."""

    def get(self, who: str, asked: str, form: TypeAdapter[T], ask: Callable[[], T]) -> T:
        """The answer that is kept, else what `ask` brings, which is kept.

        Of several processes that ask at once all get the same answer, the one that is kept first.

        Raises:
            Fault: ("data") the file is no such cache; and what `ask` raises, of which nothing is kept.
        """
        # a model's query may hold halves of characters
        key = hashlib.sha256(f"{who}\n{asked}".encode(errors="surrogatepass")).hexdigest()
        file = self._file()
        if (kept := file.use(lambda opened: _find(opened, key, self.since))) is None:
            answer = form.dump_json(redacted_value(ask()), exclude_defaults=True).decode()
            kept = file.use(lambda opened: _keep(opened, key, answer, self.since))
        try:
            return form.validate_json(kept)
        except ValidationError:
            raise file.unfit("an answer in it has another form") from None

    def _file(self) -> CacheFile:
        return CacheFile(
            self.folder / f"{self.name}.sqlite",
            tables="CREATE TABLE answers (key TEXT, at REAL, answer TEXT NOT NULL, PRIMARY KEY (key, at))",
            version=LAYOUT,
            what="a cache of the web",
            fix=f"delete it, or name another folder: export {CACHE_VARIABLE}=FOLDER",
        )


def web_cache(name: str = "web", *, since: float = 0.0) -> WebCache:
    """The cache in the folder CERTIGRAPH_WEB_CACHE, else in the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    return WebCache(expanded(given) if given else cache_folder() / "web", name, since)


def _find(opened: sqlite3.Connection, key: str, since: float) -> str | None:
    asked = "SELECT answer FROM answers WHERE key = ? AND at >= ? ORDER BY at LIMIT 1"
    row = opened.execute(asked, (key, since)).fetchone()
    return str(row[0]) if row else None


def _keep(opened: sqlite3.Connection, key: str, answer: str, since: float) -> str:
    """Keep an answer unless another process did just before; return the one that is kept."""
    with opened:
        opened.execute("BEGIN IMMEDIATE")  # nothing may come between the look and the answer
        if (kept := _find(opened, key, since)) is not None:
            return kept
        # a clock that was set back must not hide the answer, nor put it before others
        opened.execute("INSERT INTO answers VALUES (?, ?, ?)", (key, max(time.time(), since), answer))
    return answer


# The web of one question: search, a second source of evidence, and pages, each asked for once.

AT_ONCE = 4
"""Pages fetched at the same time."""

A_SEARCH = "search(query, k) returns a list of Hit(title, url, snippet)"
A_PAGE = "page(url) returns Page(url, title, text) or Unreadable(url, reason)"


class Web:
    """Search and pages. Methods block, for as long as provider and page source allow.

    Args:
        providers: the first is searched; the second, where there is one, is another source of evidence.
        pages: reads pages; those of a folder that is searched (`LocalPages`) are read there.
        cache: keeps answers; None: nothing is kept. What a folder holds is at hand and never kept.
    """

    def __init__(self, providers: Sequence[SearchProvider], pages: PageSource, cache: WebCache | None) -> None:
        self.provider, self.second = providers[0], (providers[1] if len(providers) > 1 else None)
        self._local = next((one for one in providers if isinstance(one, LocalPages)), None)
        self._pages, self._cache = pages, cache

    def search(self, provider: SearchProvider, query: str, k: int) -> Sequence[Hit]:
        """At most `k` results of one of the two.

        Raises:
            Fault: as the provider does; ("environment") what it returned are no results.
        """
        if self._cache is None or provider is self._local:
            return _checked(HITS, provider.search(query, k), A_SEARCH)
        return self._cache.get(provider.name, f"{k}\n{query}", HITS, lambda: tuple(provider.search(query, k)))

    def read(self, urls: Sequence[str]) -> list[Page | Unreadable]:
        """The pages of some URLs, a few at a time, in their order and by the URLs that they were asked for."""
        if not urls:
            return []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            pages = pool.map(self._page, urls)
        return [page.model_copy(update={"url": url}) for url, page in zip(urls, pages, strict=True)]

    def _page(self, url: str) -> Page | Unreadable:
        if self._local and url.startswith(SCHEME):
            return self._local.page(url)
        if self._cache is None:
            return _checked(PAGE, self._pages.page(url), A_PAGE)
        return self._cache.get(self._pages.name, url, PAGE, lambda: self._pages.page(url))


def _checked(form: TypeAdapter[T], answer: object, right: str) -> T:
    """What a provider or source that anybody may have written returned, as records; plain dicts will do."""
    try:
        return form.validate_python(answer)
    except ValidationError as error:
        raise Fault("environment", f"a search provider or page source returned {answer!r:.80}: {right}") from error
