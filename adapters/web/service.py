"""A search service as the user names it: its address, its key, and what to do where one of them is missing."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from certigraph.state.endings import Fault

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True)
class Service:
    """Where a service is and who it lets in; variables are those of the environment."""

    name: str
    variable: str
    """Holds its address."""
    home: str = ""
    """Its address where the variable is not set; empty: it must be."""
    path: str = ""
    """What the address is to end in."""
    key: str = ""
    """The variable that holds the key; empty where it has none."""
    key_page: str = ""
    """Where one gets a key, and more of its quota."""

    @property
    def other(self) -> str:
        """How to ask another one instead."""
        return f"CERTIGRAPH_SEARCH={'serper' if self.name == 'searxng' else 'searxng'}"

    def address(self) -> "httpx.URL":
        """The parsed address; what is none is not shown, for it may hold a password.

        Raises:
            Fault: ("environment") it is not set, or not one of http or https.
        """
        import httpx

        given = os.environ.get(self.variable) or self.home
        if not given:
            example = f"export {self.variable}=http://localhost:8080"
            raise Fault(
                "environment", f"{self.name} needs an address: {example}, or name another provider: {self.other}"
            )
        try:
            address = httpx.URL(given)
            host = address.host
        except (httpx.InvalidURL, ValueError):  # ValueError: `xn--` before what is no name
            address, host = httpx.URL(), ""
        if address.scheme not in ("http", "https") or not host or (address.port or 1) > 65_535:
            raise Fault("environment", f"{self.variable} is not an address: export {self.variable}=https://HOST/...")
        bare = address.path.rstrip("/")
        return address.copy_with(path=bare if bare.endswith(self.path) else bare + self.path)

    def secret(self) -> str:
        """The key.

        Raises:
            Fault: ("environment") it is not set, or has characters that no key has.
        """
        key = os.environ.get(self.key, "")
        if not key:
            needed = f"{self.name} needs a key: export {self.key}=... ({self.key_page})"
            raise Fault("environment", f"{needed}, or name another provider: {self.other}")
        if not key.isascii() or not key.isprintable() or " " in key:
            odd = f"{self.key} has a blank, a line break or a letter outside ASCII"
            raise Fault("environment", f"{odd}: copy the key again from {self.key_page}")
        return key

    def unreached(self) -> str:
        """What to do where no answer comes."""
        return f"check the network and {self.variable}, then certigraph resume RUN, or begin anew: {self.other}"

    def misread(self) -> str:
        """What to do where an answer has another form."""
        return f"check that {self.variable} is the address of a service that answers as {self.name} does"
