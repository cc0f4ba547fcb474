"""Page source that loads pages in a browser, for pages that need JavaScript (extra `browser`).

Every request of the browser goes through a proxy that checks addresses, and names are resolved by that proxy alone.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from certigraph.adapters.extras import import_extra
from certigraph.adapters.http import AddressRefused, PageRefused
from certigraph.adapters.processes import wait_for
from certigraph.adapters.web.addresses import Addresses, ResolveFunction, parse_url, resolve_host
from certigraph.adapters.web.pages import DENIED_STATUSES, HTML_TYPES, PageContent, parse_content_type, read_page
from certigraph.adapters.web.protocol import Unreadable, WebPage
from certigraph.adapters.web.proxies import CheckedProxy
from certigraph.state.endings import Fault

if TYPE_CHECKING:
    import httpx


BROWSER_VARIABLE = "CERTIGRAPH_BROWSER"
"""Environment variable with the path of a Chromium, in place of the one that playwright installs."""

START_SECONDS = 20.0
"""Maximum seconds in which the browser starts and ends, in addition to the time for a page."""

QUIET_SECONDS = 5.0
"""Maximum seconds to wait, once a page was loaded, until its scripts request nothing more."""

PROXY_HOST = "proxy.invalid"
"""Name of the proxy in the browser's settings, the only name that the browser itself resolves."""

BROWSER_OPTIONS = (
    "--disable-quic",
    "--disable-background-networking",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
"""Options of Chromium that close its ways around a proxy."""

REMOVED_INTERFACES = ("RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport")
"""Interfaces of scripts that connect without a proxy."""


class LoadedPage(NamedTuple):
    """A page as the browser shows it: status, Content-Type, body, its URL, and those that led to it."""

    status: int
    content_type: str
    body: bytes
    url: str
    visited: tuple[str, ...] = ()


class BrowserPages:
    """A PageSource that loads each page in a new Chromium without a window, and reads it once its scripts ran.

    Only public addresses on ports 80 and 443 are requested, by the page's scripts and frames too. robots.txt is obeyed
    for the page and its redirects.

    Args:
        timeout: maximum seconds for a page; the browser's start is not included.
        largest: maximum bytes of a page as it is shown.
        traffic: maximum bytes that a page and everything in it may load.
        allowed, hosts, robots, resolve: as for `pages.Fetcher`.

    Raises:
        Fault: ("environment") playwright is not installed; ("data") an entry of `allowed` or `hosts` is invalid.
    """

    def __init__(
        self,
        *,
        timeout: float = 20.0,
        largest: int = 2_000_000,
        traffic: int = 20_000_000,
        allowed: Sequence[str] = (),
        hosts: Mapping[str, str] | None = None,
        robots: bool = True,
        resolve: ResolveFunction = resolve_host,
    ) -> None:
        from certigraph.adapters.web.transport import Robots, Transport

        self.name = " ".join(("browser", *sorted(allowed)))
        self._timeout, self._largest, self._traffic = timeout, largest, traffic
        self._playwright = import_extra(
            "playwright.async_api", "reading pages in a browser needs", "browser", "environment"
        )
        self._addresses = Addresses(allowed, hosts, resolve)
        self._robots: Robots | None = Robots(Transport(self._addresses, redirects=5)) if robots else None

    def page(self, url: str) -> WebPage | Unreadable:
        """Return the page of an http or https URL, or the reason why there is none.

        Raises:
            Fault: ("environment") there is no browser, or it does not start.
        """
        try:
            start = parse_url(url)
            self._addresses.find(start.host, start.port or (443 if start.scheme == "https" else 80))
            self._check_robots(start)
            loaded = wait_for(self._load(str(start)))
            content = self._read(loaded)
        except PageRefused as refused:
            return Unreadable.of(url, refused)
        moved = "" if loaded.url == str(start) else loaded.url
        return WebPage(url=url, title=content.title, text=content.text, moved=moved)

    def _read(self, loaded: LoadedPage) -> PageContent:
        for url in dict.fromkeys((*loaded.visited, loaded.url)):
            try:
                self._check_robots(parse_url(url))
            except AddressRefused as error:
                raise PageRefused(f"redirects to {error.reason}", forbidden=True) from None
        if not 200 <= loaded.status < 300:
            raise _refuse_status(loaded.status)
        if len(loaded.body) > self._largest:
            raise PageRefused(f"larger than {self._largest / 1e6:g} MB")
        return read_page(loaded.body, loaded.content_type)

    def _check_robots(self, url: "httpx.URL") -> None:
        from certigraph.adapters.web.transport import Deadline

        if self._robots:
            self._robots.check(url, Deadline(self._timeout))

    async def _load(self, url: str) -> LoadedPage:
        try:
            async with (
                asyncio.timeout(self._timeout + START_SECONDS),
                CheckedProxy(self._addresses, self._traffic) as proxy,
            ):
                return await self._load_through(proxy, url)
        except TimeoutError:
            raise PageRefused(f"timed out after {self._timeout:g} s", lasting=True) from None

    async def _load_through(self, proxy: CheckedProxy, url: str) -> LoadedPage:
        async with self._start_browser(proxy) as page:
            visited, statuses = _record_navigation(page, url)
            try:
                async with asyncio.timeout(self._timeout):
                    loaded = await self._navigate(page, url)
            except self._playwright.TimeoutError:
                raise TimeoutError from None
            except self._playwright.Error as error:
                _check_visited(proxy, visited)
                raise _to_refusal(str(error), statuses) from None
        # the proxy answers for an address that it refuses
        _check_visited(proxy, visited)
        return loaded._replace(visited=tuple(visited))

    async def _navigate(self, page: Any, url: str) -> LoadedPage:
        response = await page.goto(url, wait_until="domcontentloaded", timeout=0)
        if response is None:
            raise PageRefused("no page of text")
        content_type = (await response.all_headers()).get("content-type", "")
        kind = parse_content_type(content_type)
        with suppress(self._playwright.TimeoutError):
            await page.wait_for_load_state("networkidle", timeout=QUIET_SECONDS * 1_000)
        if kind.type not in HTML_TYPES:
            return LoadedPage(response.status, content_type, await response.body(), page.url)
        shown = (await page.content()).encode(errors="replace")
        return LoadedPage(response.status, f"{HTML_TYPES[0]}; charset=utf-8", shown, page.url)

    @asynccontextmanager
    async def _start_browser(self, proxy: CheckedProxy) -> AsyncIterator[Any]:
        """Start a browser and yield a page of it. Raises Fault ("environment") if it does not start."""
        async with self._playwright.async_playwright() as driver:
            try:
                browser = await driver.chromium.launch(
                    executable_path=os.environ.get(BROWSER_VARIABLE) or None,
                    chromium_sandbox=not _is_root(),
                    proxy={"server": f"http://{PROXY_HOST}:{proxy.port}"},
                    args=[*BROWSER_OPTIONS, f"--host-resolver-rules=MAP {PROXY_HOST} 127.0.0.1, MAP * ~NOTFOUND"],
                )
            except self._playwright.Error as error:
                raise _no_browser_fault(str(error)) from None
            try:
                context = await browser.new_context(accept_downloads=False, service_workers="block")
                removed = "; ".join(f"delete globalThis.{name}" for name in REMOVED_INTERFACES)
                await context.add_init_script(script=removed)
                yield await context.new_page()
            finally:
                with suppress(self._playwright.Error):
                    await browser.close()


def _is_root() -> bool:
    # Chromium refuses to start in its sandbox for root; other systems than POSIX have no root
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _record_navigation(page: Any, url: str) -> tuple[list[str], list[int]]:
    """Return two lists that grow while the page loads: the URLs that it leads through, and their statuses."""
    visited, statuses = [url], list[int]()

    def is_navigation(request: Any) -> bool:
        return bool(request.is_navigation_request() and request.frame == page.main_frame)

    page.on("request", lambda request: visited.append(request.url) if is_navigation(request) else None)
    page.on("response", lambda reply: statuses.append(reply.status) if is_navigation(reply.request) else None)
    return visited, statuses


def _check_visited(proxy: CheckedProxy, visited: Sequence[str]) -> None:
    """Check that no URL on the way to the page was refused by the proxy, which answers in its place."""
    for url in visited:
        try:
            reason = proxy.refused.get(parse_url(url).host, "")
        except AddressRefused as error:
            reason = error.reason
        if reason:
            raise PageRefused(f"redirects to {reason}", forbidden=True)


def _refuse_status(status: int) -> PageRefused:
    if status in DENIED_STATUSES:
        return PageRefused(f"refused ({status})", lasting=True)
    return PageRefused(f"status {status}")


def _no_browser_fault(error: str) -> Fault:
    first = next((line.strip() for line in error.splitlines() if line.strip()), "")[:200]
    advice = f"playwright install chromium, or export {BROWSER_VARIABLE}=PATH of a Chromium"
    return Fault("environment", f"the browser for pages does not start ({first}): {advice}")


def _to_refusal(error: str, statuses: Sequence[int]) -> PageRefused:
    """Convert an error of the browser, and the statuses so far, to the reason why a page was refused."""
    if "ERR_HTTP_RESPONSE_CODE_FAILURE" in error and statuses:
        return _refuse_status(statuses[-1])
    if "Download is starting" in error:
        return PageRefused("no page of text")
    if "ERR_TOO_MANY_REDIRECTS" in error:
        return PageRefused("redirects in a circle")
    return PageRefused("cannot be reached", lasting=True)
