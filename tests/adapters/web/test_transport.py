"""Pages over TLS: the certificate has to be the name's, although what is connected to is a checked address."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from helpers.servers.endpoint_stub import LocalServer, QuietHandler, serving

from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import Unreadable, WebPage

HTML = b"<html><title>Vault</title><p>" + b"What is said here is said in confidence. " * 5 + b"</p></html>"


class Handler(QuietHandler):
    def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(HTML)))
        self.end_headers()
        self.wfile.write(HTML)


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with a certificate for vault.example, whose authority is trusted."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("vault.example").configure_cert(context)
    server = LocalServer(Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server):
        yield f"127.0.0.1:{server.server_port}"


def fetcher(address: str) -> Fetcher:
    return Fetcher(timeout=2.0, hosts={"vault.example": address, "other.example": address})


def test_the_name_s_certificate_opens_the_page(address: str):
    page = fetcher(address).page("https://vault.example/")
    assert isinstance(page, WebPage)
    assert page.title == "Vault"


def test_another_name_s_certificate_does_not(address: str):
    page = fetcher(address).page("https://other.example/")
    assert page == Unreadable(url="https://other.example/", reason="no secure connection", lasting=True)


def test_an_authority_that_nobody_trusts_does_not(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    assert isinstance(fetcher(address).page("https://vault.example/"), Unreadable)
