"""Pages in a real Chromium over a real local server: scripts run, and no request of a page reaches a private address.

They need playwright and a browser: pip install 'certigraph[browser]' and `playwright install chromium`, or the path of
a Chromium in CERTIGRAPH_BROWSER.
"""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.web.web_stub import Behaviour, Site, body, redirect, silent, status, web

from certigraph.adapters.web.browsers import BROWSER_VARIABLE, BrowserPages
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import Unreadable, WebPage
from certigraph.state.endings import Fault

pytestmark = pytest.mark.slow  # the browser

PROSE = "The museum opens at nine and closes at five, every day but Monday, and children enter free. " * 3
SHELL = "<html><head><title>Museum</title></head><body><div id=app></div>{}</body></html>"
WRITES = f"<script>document.getElementById('app').innerHTML = '<p>{PROSE}</p>'</script>"


def find_browser() -> str:
    """Why there is no browser; empty if there is one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'certigraph[browser]'")
    if path := os.environ.get(BROWSER_VARIABLE):
        return "" if Path(path).is_file() else f"{BROWSER_VARIABLE} names no file"
    with playwright.sync_playwright() as driver:
        found = Path(driver.chromium.executable_path).is_file()
    return "" if found else f"no browser: playwright install chromium, or export {BROWSER_VARIABLE}=PATH"


@pytest.fixture(scope="module", autouse=True)
def _browser() -> None:
    if reason := find_browser():
        pytest.skip(reason)


def browser(site: Site, **options: object) -> BrowserPages:
    return BrowserPages(**{"robots": False, "hosts": {".example": site.place}, **options})  # type: ignore[arg-type]


def loaded(behaviour: Behaviour, **options: object) -> WebPage | Unreadable:
    with web({"/x": behaviour}) as site:
        return browser(site, **options).page("http://a.example/x")


@pytest.fixture
def secret() -> Iterator[tuple[int, list[bytes]]]:
    """A service of this machine, which no page may reach: its port, and what was sent to it."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                received.append(b"connected")
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], received
        assert received == []


def test_a_page_that_a_script_writes_is_read_where_a_request_alone_finds_nothing():
    with web({"/x": body(SHELL.format(WRITES))}) as site:
        plain = Fetcher(robots=False, hosts={".example": site.place}).page("http://a.example/x")
        assert isinstance(plain, Unreadable)
        page = browser(site).page("http://a.example/x")
    assert page == WebPage(url="http://a.example/x", title="Museum", text=PROSE.strip())


def test_a_page_whose_script_requests_its_text_is_read_once_that_is_there():
    script = "<script>fetch('/text').then(r => r.text()).then(t => { document.body.innerText = t })</script>"
    with web({"/x": body(SHELL.format(script)), "/text": body(PROSE, "text/plain")}) as site:
        page = browser(site).page("http://a.example/x")
    assert isinstance(page, WebPage) and page.text == PROSE.strip()


ATTEMPTS = """<script>
const url = "127.0.0.1:{port}";
for (const host of ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
  fetch(`http://${{host}}:{port}/`, {{mode: "no-cors"}}).catch(() => 0);
new Image().src = "http://" + url + "/image";
navigator.sendBeacon("http://" + url + "/beacon", "x");
try {{ new WebSocket("ws://" + url + "/socket") }} catch (e) {{}}
try {{ new EventSource("http://" + url + "/events") }} catch (e) {{}}
const turn = {{urls: "turn:" + url + "?transport=tcp", username: "u", credential: "c"}};
try {{ new RTCPeerConnection({{iceServers: [turn]}}).createDataChannel("x") }} catch (e) {{}}
const code = `
  fetch("http://127.0.0.1:{port}/worker", {{mode: "no-cors"}}).catch(() => 0);
  try {{ new WebTransport("https://127.0.0.1:{port}/") }} catch (e) {{}}`;
new Worker(URL.createObjectURL(new Blob([code])));
</script>
<iframe src="http://127.0.0.1:{port}/frame"></iframe>
<iframe srcdoc="<script>fetch('http://127.0.0.1:{port}/inner', {{mode: 'no-cors'}})</script>"></iframe>
<link rel="stylesheet" href="http://127.0.0.1:{port}/style"><link rel="preconnect" href="http://127.0.0.1:{port}">
<object data="http://127.0.0.1:{port}/object"></object><form></form>"""


def test_nothing_in_a_page_reaches_this_machine(secret: tuple[int, list[bytes]]):
    port, received = secret
    page = loaded(body(SHELL.format(WRITES + ATTEMPTS.format(port=port))))
    assert isinstance(page, WebPage) and page.text == PROSE.strip()
    assert received == []


def test_the_attempts_do_reach_what_the_user_allows():
    """Without this the test before it could pass because nothing was tried."""
    with web({"/": body("x")}) as other:
        script = ATTEMPTS.format(port=other.server_port)
        page = loaded(body(SHELL.format(WRITES + script)), allowed=("127.0.0.1",))
        paths = {path.partition("/")[2] for path in other.requests}
    assert isinstance(page, WebPage)
    assert {"", "image", "events", "worker", "frame", "style"} <= paths


def test_a_page_that_moves_to_this_machine_is_refused(secret: tuple[int, list[bytes]]):
    port, _ = secret
    for behaviour in (
        redirect(f"http://127.0.0.1:{port}/"),
        redirect("http://169.254.169.254/latest/meta-data/"),
        body(SHELL.format(f"<script>location = 'http://127.0.0.1:{port}/'</script>")),
    ):
        refused = loaded(behaviour)
        assert isinstance(refused, Unreadable), refused
    assert "private address" in loaded(redirect("http://10.0.0.1/")).reason  # type: ignore[union-attr]


def test_private_addresses_are_refused_before_a_browser_starts():
    pages = BrowserPages(robots=False)
    for url in ("http://127.0.0.1/", "http://[::1]/", "http://2130706433/", "file:///etc/passwd"):
        refused = pages.page(url)
        assert isinstance(refused, Unreadable) and refused.forbidden


def test_a_name_that_changes_its_address_is_resolved_by_the_proxy_alone(secret: tuple[int, list[bytes]]):
    """First a public address, then this machine: what is connected to is what was checked."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"], ["127.0.0.1"]])
    refused = BrowserPages(robots=False, resolve=lambda host, port: next(answers, ["127.0.0.1"])).page("http://a.org/")
    assert isinstance(refused, Unreadable)


def test_robots_txt_is_obeyed_for_redirects_too():
    rules = body("User-agent: *\nDisallow: /no", "text/plain")
    page = body(SHELL.format(WRITES))
    pages = {"/robots.txt": rules, "/no": page, "/x": redirect("/no"), "/yes": page, "/no/way": redirect("/yes")}
    pages["/there"] = redirect("/no/way")
    with web(pages) as site:
        source = browser(site, robots=True)
        for path in ("/no", "/x", "/there"):
            refused = source.page(f"http://a.example{path}")
            assert isinstance(refused, Unreadable) and refused.forbidden
            assert "robots.txt" in refused.reason


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (status(403), "refused (403)"),
        (status(404), "status 404"),
        (body("%PDF-1.4", "application/pdf"), "not a page of text"),
        (body(SHELL.format("")), "less than 100 characters"),
        (silent(4.0), "timed out after 3 s"),
        (body(SHELL.format(WRITES + "<script>while (true) {}</script>")), "timed out after 3 s"),
    ],
)
def test_a_page_that_cannot_be_read_has_a_reason(behaviour: Behaviour, reason: str):
    refused = loaded(behaviour, timeout=3.0)
    assert isinstance(refused, Unreadable), refused
    assert reason in refused.reason


def test_a_page_that_grows_too_large_is_refused():
    refused = loaded(
        body(SHELL.format(f"{WRITES}<script>document.body.innerText = 'x'.repeat(9e4)</script>")), largest=80_000
    )
    assert isinstance(refused, Unreadable) and "larger than" in refused.reason


def test_a_moved_page_has_its_final_url():
    with web({"/x": redirect("/y"), "/y": body(SHELL.format(WRITES))}) as site:
        page = browser(site).page("http://a.example/x")
    assert isinstance(page, WebPage) and page.moved == "http://a.example/y"


def test_a_text_that_is_not_html_is_read():
    page = loaded(body(PROSE, "text/plain"))
    assert isinstance(page, WebPage) and page.text == PROSE.strip()


def test_a_browser_that_does_not_start_is_a_fault_with_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv(BROWSER_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(Fault, match="playwright install chromium"):
        loaded(body(SHELL.format(WRITES)))
