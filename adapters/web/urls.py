"""URLs that may be asked for, as far as their text tells."""

from typing import TYPE_CHECKING

from certigraph.adapters.web.refused import OutOfBounds

if TYPE_CHECKING:
    import httpx


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
