"""A bank that pays and then fails, for tests of effects that happen once."""


class Killed(BaseException):
    """The process ends here: no code of a graph may catch it."""


class FailingBank:
    """Pays, and then fails in the given ways, one after another."""

    def __init__(self, *failures: BaseException | None) -> None:
        self.paid: list[str] = []
        self._failures = list(failures)

    def pay(self, name: str) -> str:
        """Pay somebody."""
        self.paid.append(name)
        if self._failures and (failure := self._failures.pop(0)):
            raise failure
        return f"paid {name}, receipt {len(self.paid)}"
