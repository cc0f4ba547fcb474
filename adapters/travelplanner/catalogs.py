"""The catalogs of a benchmark's queries, each made once."""

from certigraph.adapters.travelplanner.catalog import Catalog
from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.lookahead import cheapest_cost
from certigraph.adapters.travelplanner.trip import trip_of
from certigraph.state.records import Predicate


class Catalogs:
    """What trips can choose from, over one database."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        # By identity, for a query holds dicts; it is kept beside its catalog, so that no other takes its identity.
        self._made: dict[tuple[int, tuple[str, ...]], tuple[Query, Catalog]] = {}

    def of(self, query: Query, route: tuple[str, ...]) -> Catalog:
        """The catalog of a query's trip on a route."""
        key = (id(query), route)
        if key not in self._made:
            catalog = Catalog(query.people_number, query.local_constraint, trip_of(query, route), self._sandbox)
            self._made[key] = (query, catalog)
        return self._made[key][1]

    def feasible(self, query: Query) -> bool:
        """Whether some plan along the reference's route keeps every constraint within the budget."""
        least = cheapest_cost(self.of(query, trip_of(query).cities), every_meal=False)
        return least is not None and least <= query.budget


def route_of(target: Predicate) -> tuple[str, ...]:
    """The route that a predicate is for."""
    route = target.args["route"]
    return tuple(map(str, route)) if isinstance(route, list) else ()
