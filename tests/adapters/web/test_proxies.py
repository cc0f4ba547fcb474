"""The proxy of the browser, without a browser: what it forwards, and what it refuses to connect to."""

import asyncio
import socket
from collections.abc import Mapping

import httpx
import pytest
from helpers.web.web_stub import Site, body, flood, web
from hypothesis import given
from hypothesis import strategies as st

from certigraph.adapters.http import PageRefused
from certigraph.adapters.web.addresses import Addresses
from certigraph.adapters.web.proxies import CheckedProxy, parse_proxy_request

TEXT = "The museum opens at nine. " * 9


async def requested(url: str, hosts: Mapping[str, str], most: int = 1_000_000) -> tuple[int, str, Mapping[str, str]]:
    """Status and text of a URL that is requested through the proxy, and what the proxy refused."""
    async with CheckedProxy(Addresses(hosts=hosts), most) as proxy:
        async with httpx.AsyncClient(proxy=f"http://127.0.0.1:{proxy.port}", trust_env=False) as client:
            reply = await client.get(url)
        return reply.status_code, reply.text, proxy.refused


def hosts_of(site: Site) -> dict[str, str]:
    return {".example": site.place}


def test_a_request_is_forwarded_to_the_checked_address_with_its_own_host():
    with web({"a.example/x?q=1": body(TEXT)}) as site:
        status, text, refused = asyncio.run(requested("http://a.example/x?q=1", hosts_of(site)))
        assert (status, text, refused) == (200, TEXT, {})
        assert site.headers[0]["Host"] == "a.example"
        assert site.headers[0]["Connection"] == "close"
        assert "Proxy-Connection" not in site.headers[0]


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "2130706433", "10.1.2.3"])
def test_private_addresses_are_refused_and_named(host: str):
    with web({"/": body(TEXT)}) as site:
        for url in (f"http://{host}:{site.server_port}/", f"http://{host}/"):
            status, _, refused = asyncio.run(requested(url, {}))
            assert status == 403
            assert refused or ":" in host  # httpx sends it without its brackets, which is not a URL
        assert site.requests == []


def test_a_tunnel_to_a_private_address_is_refused():
    with pytest.raises(httpx.ProxyError):
        asyncio.run(requested("https://127.0.0.1/", {}))


def test_a_tunnel_carries_bytes_both_ways():
    async def tunnelled(site: Site) -> bytes:
        async with CheckedProxy(Addresses(hosts=hosts_of(site)), 1_000_000) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n")
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            writer.write(b"GET /x HTTP/1.0\r\nHost: a.example\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    with web({"/x": body(TEXT)}) as site:
        assert TEXT.encode() in asyncio.run(tunnelled(site))


def test_traffic_ends_at_its_maximum():
    with web({"/x": flood(50_000_000)}) as site:
        with pytest.raises((httpx.HTTPError, AssertionError)):
            _, text, _ = asyncio.run(requested("http://a.example/x", hosts_of(site), most=500_000))
            assert len(text) > 1_000_000
        assert site.sent < 20_000_000


@pytest.mark.parametrize(
    "head", [b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"x" * 90_000, b"CONNECT \xff:1 HTTP/1.1\r\n\r\n"]
)
def test_what_is_not_a_request_to_a_proxy_is_refused(head: bytes):
    async def sent() -> bytes:
        async with CheckedProxy(Addresses(), 1_000_000) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(head)
            answer = await reader.read(64)
            writer.close()
            return answer

    assert b" 403 " in asyncio.run(sent())


def test_a_host_whose_every_address_refuses_the_connection_is_an_error_of_that_request():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        place = f"127.0.0.1:{closed.getsockname()[1]}"
    assert asyncio.run(requested("http://a.example/", {".example": place}))[0] == 403


def test_a_connection_that_is_open_does_not_keep_the_proxy_from_ending():
    async def opened() -> None:
        async with CheckedProxy(Addresses(), 1_000_000) as proxy:
            await asyncio.open_connection("127.0.0.1", proxy.port)
            await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(opened(), 5))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_forwarded_head_is_one_request_of_one_line_and_its_headers(target: bytes, header: bytes):
    head = b"GET http://a.example/" + target + b" HTTP/1.1\r\nX: " + header + b"\r\n\r\n"
    try:
        request = parse_proxy_request(head)
    except PageRefused:
        return
    assert request.host == "a.example" and not request.tunnel
    assert request.head.endswith(b"\r\nConnection: close\r\n\r\n")
    assert request.head.partition(b"\r\n")[0].count(b" ") == 2
    assert request.head.count(b"\r\n\r\n") == 1
