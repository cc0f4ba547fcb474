"""The cities and states that the tools know; others are refused with the names that may have been meant."""

from collections import defaultdict
from collections.abc import Sequence

from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.tools.forms import CITIES, RefusedError, near


class Places:
    """The benchmark's set of cities, by name and by state, in any case. Eight names are a city's and a state's."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._cities = {city.lower(): city for city in sandbox.cities()}
        self._of_state: dict[str, list[str]] = defaultdict(list)
        for city in sandbox.cities():
            self._of_state[sandbox.state_of(city) or ""].append(city)
        self._states = {state.lower(): state for state in self._of_state}

    def city(self, text: str) -> str:
        """A city as the data write it.

        Raises:
            RefusedError: there is none of that name.
        """
        if found := self._cities.get(text.lower()):
            return found
        if state := self._states.get(text.lower()):
            raise RefusedError(f"{state} is a state; {CITIES}[{state}] names its cities.")
        raise _unknown(text, "city", list(self._cities.values()))

    def state(self, text: str) -> str:
        """A state as the data write it. Raises RefusedError as `city` does."""
        if found := self._states.get(text.lower()):
            return found
        if city := self._cities.get(text.lower()):
            states = (state for state, cities in self._of_state.items() if city in cities)
            raise RefusedError(f"{city} is a city of {next(states)}; name a state.")
        raise _unknown(text, "state", list(self._of_state))

    def cities_of(self, state: str) -> Sequence[str]:
        """The cities of a state, in the data's order."""
        return self._of_state.get(state, ())


def _unknown(text: str, what: str, names: Sequence[str]) -> RefusedError:
    found = ", ".join(near(text, names))
    meant = f"near it are {found}" if found else f"{len(names)} are known, for example {', '.join(names[:3])}"
    return RefusedError(f"No {what} is named {text[:60]!r}; {meant}.")
