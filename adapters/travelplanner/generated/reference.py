"""The reference information of a query: tables and sentences in the benchmark's schema."""

from collections.abc import Iterable, Mapping, Sequence

from certigraph.adapters.travelplanner.data.sandbox import Accommodation, Flight, Restaurant, Sandbox
from certigraph.adapters.travelplanner.generated.world import Sight
from certigraph.adapters.travelplanner.official.parsing import Kind, distance_cost
from certigraph.adapters.travelplanner.trip import Leg, Trip

Item = dict[str, str]


def reference_information(trip: Trip, sandbox: Sandbox, sights: Mapping[str, Sequence[Sight]]) -> list[Item]:
    """Three tables for each visited city, then flights, self-driving and taxi for each leg."""
    cities = [item for city in trip.cities for item in _city(city, sandbox, sights[city])]
    return cities + [item for leg in trip.legs for item in _leg(leg, sandbox)]


def _city(city: str, sandbox: Sandbox, sights: Sequence[Sight]) -> list[Item]:
    restaurants = (_restaurant(row) for row in sandbox.restaurants(city))
    accommodations = (_accommodation(row) for row in sandbox.accommodations(city))
    return [
        _item(f"Attractions in {city}", _table("Name Latitude Longitude Address Phone Website City", sights)),
        _item(f"Restaurants in {city}", _table("Name Average Cost Cuisines Aggregate Rating City", restaurants)),
        _item(
            f"Accommodations in {city}",
            _table(
                "NAME price room type house_rules minimum nights maximum occupancy review rate number city",
                accommodations,
            ),
        ),
    ]


def _restaurant(row: Restaurant) -> tuple[object, ...]:
    return row.name, row.cost, row.cuisines, row.rating, row.city


def _accommodation(row: Accommodation) -> tuple[object, ...]:
    limits = (row.minimum_nights, row.maximum_occupancy, row.rating)
    return row.name, row.price, row.room_type, row.house_rules, *limits, row.city


def _leg(leg: Leg, sandbox: Sandbox) -> list[Item]:
    way = f"from {leg.origin} to {leg.destination}"
    flights = sandbox.flights(leg.origin, leg.destination, leg.date)
    return [
        _item(f"Flight {way} on {leg.date}", _flights(flights) or f"There is no flight {way} on {leg.date}."),
        _item(f"Self-driving {way}", _road("self-driving", leg, sandbox)),
        _item(f"Taxi {way}", _road("taxi", leg, sandbox)),
    ]


def _flights(flights: Sequence[Flight]) -> str:
    columns = "Flight Number Price DepTime ArrTime ActualElapsedTime FlightDate OriginCityName DestCityName Distance"
    return _table(columns, (flight._replace(price=int(flight.price)) for flight in flights)) if flights else ""


def _road(kind: Kind, leg: Leg, sandbox: Sandbox) -> str:
    road = sandbox.distance(leg.origin, leg.destination)
    cost = distance_cost(kind, road)
    if road is None or cost is None:
        return "No valid information."
    way = f"from {leg.origin} to {leg.destination}"
    return f"{kind}, {way}, duration: {road.duration}, distance: {road.distance}, cost: {cost}"


def _table(header: str, rows: Iterable[Iterable[object]]) -> str:
    return "\n".join([header, *(" ".join(map(str, row)) for row in rows)])


def _item(description: str, content: str) -> Item:
    return {"Description": description, "Content": content}
