"""Which addresses may be asked."""

import contextlib
import ipaddress
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certigraph.adapters.http import AddressRefused, PageRefused
from certigraph.adapters.web.addresses import Addresses, SocketAddress, allowed_hosts, is_public, parse_ip, parse_url
from certigraph.state.endings import Fault

PUBLIC, PRIVATE = "93.184.215.14", "10.1.2.3"
RESERVED = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.2.0/24"),
    *("192.0.0.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32", "3fff::/20", "5f00::/16", "2001:2::/48"),
    *("::/127", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32", "64:ff9b:1::/48", "2001::/32"),
)


def inside(network: str) -> st.SearchStrategy[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    return st.ip_addresses(network=network)


private = st.sampled_from(RESERVED).flatmap(inside)
private_v4 = st.sampled_from([network for network in RESERVED if ":" not in network]).flatmap(inside)


def spellings(ip: ipaddress.IPv4Address) -> list[str]:
    """One IPv4 address as resolvers take it, and wrapped into IPv6."""
    number, (a, b, c, d) = int(ip), ip.packed
    plainly = [str(ip), str(number), hex(number), f"0{number:o}", f"{a:#x}.{number & 0xFFFFFF}", f"0{a:o}.{b}.{c}.{d}"]
    sixth = f"2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1"
    return [*plainly, f"[::ffff:{ip}]", f"[::{ip}]", f"[64:ff9b::{ip}]", f"[{sixth}]"]


@pytest.mark.slow
@given(private, st.sampled_from([80, 443]))
def test_private_and_reserved_addresses_are_refused(ip, port):
    with pytest.raises(AddressRefused, match=r"^a private address$"):
        Addresses(resolve=lambda host, port: [str(ip)]).find("x.example", port)


@settings(max_examples=40)
@given(private_v4.flatmap(lambda ip: st.sampled_from(spellings(ip))))
def test_so_they_are_in_any_spelling(host):
    # the machine's own resolver, which needs no network for numbers
    with pytest.raises(AddressRefused, match=r"^a private address$"):
        Addresses().find(host.strip("[]"), 80)
    with pytest.raises(AddressRefused):
        Addresses().find(parse_url(f"http://{host}/").raw_host.decode(), 80)


@pytest.mark.parametrize("address", ["192.0.0.192", "192.0.0.1", "169.254.169.254", "168.63.129.16", "fd00:ec2::254"])
def test_where_clouds_keep_their_metadata_is_private(address):
    for spelling in spellings(ipaddress.IPv4Address(address)) if ":" not in address else [address]:
        with pytest.raises(AddressRefused, match=r"^a private address$"):
            Addresses().find(spelling.strip("[]"), 80)


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_ones_are_not(address):
    assert is_public(parse_ip(address))
    assert Addresses(resolve=lambda *_: [address]).find("x.example", 443) == [SocketAddress(address, 443)]


@pytest.mark.parametrize("found", [[PUBLIC, PRIVATE], [PRIVATE, PUBLIC], ["fe80::1%eth0", PUBLIC]])
def test_a_name_with_one_private_address_is_refused(found):
    with pytest.raises(AddressRefused):
        Addresses(resolve=lambda *_: found).find("x.example", 80)


@pytest.mark.parametrize(
    ("rule", "host", "address", "port", "passes"),
    [
        ("x.example", "x.example", PRIVATE, 80, True),
        ("x.example", "X.Example.", PRIVATE, 8000, True),
        ("x.example", "y.x.example", PRIVATE, 80, False),
        ("x.example:8000", "x.example", PRIVATE, 8000, True),
        ("x.example:8000", "x.example", PRIVATE, 80, False),
        ("x.example:8000", "x.example", PUBLIC, 8000, True),
        ("10.0.0.0/8", "y.example", PRIVATE, 9200, True),
        ("10.0.0.0/8", "y.example", "192.168.0.1", 80, False),
        ("10.0.0.0/8", "y.example", f"::ffff:{PRIVATE}", 80, True),
        ("127.0.0.1:8000", "localhost", "127.0.0.1", 8000, True),
        ("127.0.0.1:8000", "localhost", "127.0.0.1", 8001, False),
        ("[::1]:8000", "localhost", "::1", 8000, True),
        ("fd00::/8", "y.example", "fd12::1", 80, True),
        ("1.2.3.4", "y.example", PUBLIC, 8000, False),
    ],
)
def test_what_a_user_allows(rule, host, address, port, passes):
    addresses = Addresses([rule], resolve=lambda *_: [address])
    if passes:
        assert addresses.find(host, port) == [SocketAddress(address, port)]
    else:
        with pytest.raises(AddressRefused):
            addresses.find(host, port)


def test_names_mapped_to_a_place():
    hosts = {"a.example": "127.0.0.1:1", ".example": "127.0.0.1:2", ".deep.example": "127.0.0.1:3"}
    addresses = Addresses(hosts=hosts, resolve=lambda *_: [PRIVATE])
    found = [addresses.find(host, 80)[0].port for host in ("A.example", "b.example", "c.deep.example")]
    assert found == [1, 2, 3]
    with pytest.raises(AddressRefused):
        addresses.find("badexample", 80)


@pytest.mark.parametrize(
    "wrong", ["", "a b:x", "a.example b.example", "user@host", "host/path", "host:port", "10.0.0.0/99"]
)
def test_entries_that_cannot_be_read(wrong):
    with pytest.raises(Fault, match=r"10\.0\.0\.0/8"):
        Addresses([wrong])
    with pytest.raises(Fault, match=r"127\.0\.0\.1:8080"):
        Addresses(hosts={"a.example": wrong})


@pytest.mark.parametrize("error", [socket.gaierror(-2, "no"), UnicodeError("label too long"), TimeoutError()])
def test_a_host_that_is_not_found(error):
    def resolve(host, port):
        raise error

    with pytest.raises(PageRefused, match=r"^its host cannot be found$") as caught:
        Addresses(resolve=resolve).find("x.example", 80)
    assert caught.value.lasting


def test_the_users_hosts(monkeypatch):
    monkeypatch.setenv("CERTIGRAPH_WEB_ALLOW", "intranet.example, 10.0.0.0/8,,")
    assert allowed_hosts() == ("intranet.example", "10.0.0.0/8")
    monkeypatch.delenv("CERTIGRAPH_WEB_ALLOW")
    assert allowed_hosts() == ()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "a URL that is not http or https"),
        ("javascript:alert(1)", "a URL that is not http or https"),
        ("no url at all", "a URL that is not http or https"),
        ("", "a URL that is not http or https"),
        ("http://me:secret@x.example/", "a URL with a user's name"),
        ("http:///path", "what is not a URL"),
        ("http://x.example:99999/", "what is not a URL"),
        ("http://x.example:0/", "what is not a URL"),
        ("http://[::1/", "what is not a URL"),
        ("http://☃.example/", "what is not a URL"),
        ("http://x.example/\0", "what is not a URL"),
        ("http://x.example/" + "x" * 70_000, "what is not a URL"),
    ],
)
def test_urls_that_are_not_requested(url, reason):
    with pytest.raises(AddressRefused) as caught:
        parse_url(url)
    assert caught.value.reason == reason


@given(st.text())
def test_any_text_is_a_url_or_out_of_bounds(text):
    for url in (text, f"http://{text}", f"http://xn--{text}/", f"http://x.example/{text}"):
        with contextlib.suppress(AddressRefused):
            assert parse_url(url).scheme in ("http", "https")
