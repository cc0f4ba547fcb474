"""Which IP addresses are the internet's, and not this machine's or its network's own."""

import ipaddress
from ipaddress import IPv4Address, IPv6Address

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
