"""Why a page cannot be had, raised on the way and said in `Unreadable`."""


class Refused(Exception):
    """There is no page, and `reason` says why; `lasting`: other pages of its domain will fare no better."""

    def __init__(self, reason: str, *, lasting: bool = False) -> None:
        self.reason, self.lasting = reason, lasting
        super().__init__(reason)


class OutOfBounds(Refused):
    """An address that must not be asked; the reason names it, so that `redirects to` may stand before it."""
