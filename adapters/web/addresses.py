"""Addresses and URLs that may be requested."""

import ipaddress
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from certigraph.adapters.http import OutOfBounds, Refused
from certigraph.state.records import Fault

if TYPE_CHECKING:
    import httpx


# URLs that may be asked for, as far as their text tells.


def parsed(url: str, base: "httpx.URL | None" = None) -> "httpx.URL":
    """A URL without its fragment; relative to `base` where there is one.

    Raises:
        OutOfBounds: it is none, not one of http or https, names a user, or has no host or a port that cannot be.
    """
    import httpx

    try:
        whole = (base.join(url) if base else httpx.URL(url)).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError):
        raise OutOfBounds("what is no URL") from None
    if whole.scheme not in ("http", "https"):
        raise OutOfBounds("a URL that is not http or https")
    if whole.userinfo:
        raise OutOfBounds("a URL with a user's name")
    # `host` would decode it, and raise where it begins with `xn--` and is no name
    if not whole.raw_host or not (whole.port is None or 0 < whole.port < 65536):
        raise OutOfBounds("what is no URL")
    return whole


# Which IP addresses are the internet's, and not this machine's or its network's own.

IP = IPv4Address | IPv6Address

UNICAST = ipaddress.ip_network("2000::/3")
"""All that is handed out of IPv6 for use across the internet."""

NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 addresses as a network without IPv4 sees them (RFC 6052)."""


def plain(address: str) -> IP:
    """An address without its zone; the IPv4 address where IPv6 only wraps one. Raises ValueError where it is none."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip in NAT64:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return (isinstance(ip, IPv6Address) and ip.ipv4_mapped) or ip


def is_public(ip: IP) -> bool:
    """Whether an address is the internet's; one that is routed by an IPv4 address (6to4) is as public as that is."""
    if isinstance(ip, IPv4Address):
        return ip.is_global and not ip.is_multicast and not ip.is_reserved
    return ip in UNICAST and ip.is_global and (ip.sixtofour is None or is_public(ip.sixtofour))


# Which addresses may be asked: public ones, and those that the user allows.
#
# A page that an agent opens may come from anybody, so its URL must not lead to what only this machine can reach: its
# own services, its network, a cloud's metadata at 169.254.169.254. Spelling does not matter (`2130706433` and
# `0x7f.1` are 127.0.0.1): a host is judged by the addresses that it resolves to, and these very addresses are
# connected to.

ALLOWED = "CERTIGRAPH_WEB_ALLOW"
PORTS = (80, 443)

Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a host for a port, best first. Raises OSError where there are none."""


class Place(NamedTuple):
    """What a socket connects to."""

    address: str
    port: int


class Rule(NamedTuple):
    """What a user allows: a network or a host by its name, on one port or on all."""

    name: str
    network: IPv4Network | IPv6Network | None
    port: int | None

    def covers(self, name: str, place: Place) -> bool:
        """Whether a place, asked for by that name, is allowed."""
        meant = plain(place.address) in self.network if self.network else name == self.name
        return meant and self.port in (None, place.port)


def allowed_hosts() -> tuple[str, ...]:
    """What CERTIGRAPH_WEB_ALLOW allows, separated by commas: hosts, `host:port`, networks such as `10.0.0.0/8`."""
    return tuple(entry for part in os.environ.get(ALLOWED, "").split(",") if (entry := part.strip()))


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host as this machine finds them. Raises OSError where there are none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Addresses:
    """Finds where to connect to.

    Args:
        allowed: hosts, `host:port` and networks that may be private, and on any port or the one that is named.
        hosts: where hosts are, like a hosts file: a name, or the end of names (`.example`), to `address:port`. Allowed.
        resolve: finds a host's addresses.

    Raises:
        Fault: ("data") an entry that cannot be read.
    """

    def __init__(
        self, allowed: Sequence[str] = (), hosts: Mapping[str, str] | None = None, resolve: Resolve = resolved
    ) -> None:
        self._rules = [_rule(entry) for entry in allowed]
        self._hosts = {name.lower(): _place(target) for name, target in (hosts or {}).items()}
        self._resolve = resolve

    def find(self, host: str, port: int) -> list[Place]:
        """Where to connect to, best first.

        Raises:
            Refused: the host cannot be found.
            OutOfBounds: one of its addresses is private, or the port unusual, and not allowed.
        """
        name = host.lower().rstrip(".")
        if mapped := self._mapped(name):
            return [mapped]
        places = self._resolved(host, port)
        others = [place for place in places if not any(rule.covers(name, place) for rule in self._rules)]
        if not all(is_public(plain(place.address)) for place in others):
            raise OutOfBounds("a private address")
        if others and port not in PORTS:
            raise OutOfBounds("a port that is not allowed")
        return places

    def _mapped(self, name: str) -> Place | None:
        ends = [key for key in self._hosts if key == name or (key.startswith(".") and name.endswith(key))]
        return self._hosts[max(ends, key=len)] if ends else None

    def _resolved(self, host: str, port: int) -> list[Place]:
        try:
            places = [Place(address, port) for address in self._resolve(host, port)]
        except (OSError, UnicodeError):  # UnicodeError: a part of the name is empty or too long
            places = []
        if not places:
            raise Refused("its host cannot be found", lasting=True)
        return places


def _rule(entry: str) -> Rule:
    network = _network(entry)
    if network:
        return Rule("", network, None)
    try:
        host, port = _split(entry)
    except ValueError:
        wrong = f"{entry!r} is no host, host:port or network that pages may be read from"
        raise Fault("data", f"{wrong}: write it like intranet.example:8080 or 10.0.0.0/8") from None
    return Rule(host, _network(host), port)


def _place(target: str) -> Place:
    try:
        host, port = _split(target)
        return Place(str(ipaddress.ip_address(host)), port or PORTS[0])
    except ValueError:
        raise Fault("data", f"{target!r} is no place of a host: write it like 127.0.0.1:8080") from None


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _split(text: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.netloc != text or parts.username is not None or " " in text:
        raise ValueError(text)
    return parts.hostname.rstrip("."), parts.port
