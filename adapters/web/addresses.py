"""Addresses and URLs that may be requested: protection against requests to private networks.

`parse_url` checks the text of a URL; `Addresses` checks the IP addresses of its host.
"""

import ipaddress
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from certigraph.adapters.http import AddressRefused, PageRefused
from certigraph.state.endings import Fault

if TYPE_CHECKING:
    import httpx


# Checks of a URL's text.


def parse_url(url: str, base: "httpx.URL | None" = None) -> "httpx.URL":
    """Parse a URL, relative to `base` if given, and remove its fragment.

    Raises:
        AddressRefused: the URL is invalid, is not http or https, contains a user name, or has no host or an impossible
            port.
    """
    import httpx

    try:
        parsed_url = (base.join(url) if base else httpx.URL(url)).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError):
        raise AddressRefused("what is not a URL") from None
    if parsed_url.scheme not in ("http", "https"):
        raise AddressRefused("a URL that is not http or https")
    if parsed_url.userinfo:
        raise AddressRefused("a URL with a user's name")
    # `host` would decode the name, and raise for an invalid one that begins with `xn--`
    if not parsed_url.raw_host or not (parsed_url.port is None or 0 < parsed_url.port < 65536):
        raise AddressRefused("what is not a URL")
    return parsed_url


# Public IP addresses.

IP = IPv4Address | IPv6Address

UNICAST = ipaddress.ip_network("2000::/3")
"""All IPv6 addresses that are allocated for the public internet."""

NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 addresses as seen from a network without IPv4 (RFC 6052)."""


def parse_ip(address: str) -> IP:
    """Parse an IP address, ignoring its zone. An IPv6 address that stands for an IPv4 address becomes that address.

    Raises:
        ValueError: the address is invalid.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip in NAT64:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return (isinstance(ip, IPv6Address) and ip.ipv4_mapped) or ip


RESERVED = (
    *map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20")),
    ipaddress.ip_network("168.63.129.16"),
)
"""Networks that Python, or an older one, takes for public, and that are not: those of the IANA registries of special
addresses, such as 192.0.0.192, at which a cloud keeps metadata, and 168.63.129.16, at which Azure does."""


def is_public(ip: IP) -> bool:
    """Return whether an IP address is public. A 6to4 address is public only if its IPv4 address is."""
    if any(ip in network for network in RESERVED):
        return False
    if isinstance(ip, IPv4Address):
        return ip.is_global and not ip.is_multicast and not ip.is_reserved
    return ip in UNICAST and ip.is_global and (ip.sixtofour is None or is_public(ip.sixtofour))


# Addresses that may be requested: public ones, and those that the user allows.
#
# A page that an agent opens may come from anyone, so its URL must not reach what only this machine can reach: its
# services, its network, a cloud's metadata at 169.254.169.254. The spelling does not matter (`2130706433` and `0x7f.1`
# are 127.0.0.1): the addresses that a host resolves to are checked, and exactly these are connected to.

ALLOWED_VARIABLE = "CERTIGRAPH_WEB_ALLOW"
ALLOWED_PORTS = (80, 443)

ResolveFunction = Callable[[str, int], Sequence[str]]
"""Function (host, port) -> IP addresses of the host, best first. It raises OSError if there are none."""


class SocketAddress(NamedTuple):
    """IP address and port that a socket connects to."""

    address: str
    port: int


class AllowRule(NamedTuple):
    """Entry of the user's allowed hosts: a network or a host name, on one port (`port`) or on all (None)."""

    name: str
    network: IPv4Network | IPv6Network | None
    port: int | None

    def covers(self, name: str, place: SocketAddress) -> bool:
        """Return whether this rule allows a connection to `place`, to which the host name `name` was resolved."""
        matches = parse_ip(place.address) in self.network if self.network else name == self.name
        return matches and self.port in (None, place.port)


def allowed_hosts() -> tuple[str, ...]:
    """Return the entries of CERTIGRAPH_WEB_ALLOW, a list with commas: hosts, `host:port`, networks (`10.0.0.0/8`)."""
    return tuple(entry for part in os.environ.get(ALLOWED_VARIABLE, "").split(",") if (entry := part.strip()))


def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a host name with this machine's resolver. Raises OSError if the host has no address."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


class Addresses:
    """Resolver that returns only addresses which may be requested.

    Args:
        allowed: hosts, `host:port` and networks that may be requested although they are private, on any port or on the
            given one.
        hosts: fixed addresses, as in a hosts file: from a host name, or the end of host names (`.example`), to
            `address:port`. They may be requested without a check.
        resolve: function that resolves a host name.

    Raises:
        Fault: ("data") an entry of `allowed` or `hosts` is invalid.
    """

    def __init__(
        self,
        allowed: Sequence[str] = (),
        hosts: Mapping[str, str] | None = None,
        resolve: ResolveFunction = resolve_host,
    ) -> None:
        self._rules = [_parse_rule(entry) for entry in allowed]
        self._hosts = {name.lower(): _parse_socket_address(target) for name, target in (hosts or {}).items()}
        self._resolve = resolve

    def find(self, host: str, port: int) -> list[SocketAddress]:
        """Return the addresses and ports to connect to for a host, best first.

        Raises:
            PageRefused: the host cannot be resolved.
            AddressRefused: one of its addresses is private, or the port is neither 80 nor 443, and no entry allows it.
        """
        name = host.lower().rstrip(".")
        if mapped := self._mapped(name):
            return [mapped]
        places = self._resolved(host, port)
        others = [place for place in places if not any(rule.covers(name, place) for rule in self._rules)]
        if not all(is_public(parse_ip(place.address)) for place in others):
            raise AddressRefused("a private address")
        if others and port not in ALLOWED_PORTS:
            raise AddressRefused("a port that is not allowed")
        return places

    def _mapped(self, name: str) -> SocketAddress | None:
        ends = [key for key in self._hosts if key == name or (key.startswith(".") and name.endswith(key))]
        return self._hosts[max(ends, key=len)] if ends else None

    def _resolved(self, host: str, port: int) -> list[SocketAddress]:
        try:
            places = [SocketAddress(address, port) for address in self._resolve(host, port)]
        except (OSError, UnicodeError):  # UnicodeError: a part of the name is empty or too long
            places = []
        if not places:
            raise PageRefused("its host cannot be found", lasting=True)
        return places


def _parse_rule(entry: str) -> AllowRule:
    network = _parse_network(entry)
    if network:
        return AllowRule("", network, None)
    try:
        host, port = _split_host_port(entry)
    except ValueError:
        message = f"{entry!r} is not a host, host:port or network that pages may be read from"
        raise Fault("data", f"{message}: write it like intranet.example:8080 or 10.0.0.0/8") from None
    return AllowRule(host, _parse_network(host), port)


def _parse_socket_address(target: str) -> SocketAddress:
    try:
        host, port = _split_host_port(target)
        return SocketAddress(str(ipaddress.ip_address(host)), port or ALLOWED_PORTS[0])
    except ValueError:
        raise Fault("data", f"{target!r} is not an address with a port: write it like 127.0.0.1:8080") from None


def _parse_network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _split_host_port(text: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.netloc != text or parts.username is not None or " " in text:
        raise ValueError(text)
    return parts.hostname.rstrip("."), parts.port
