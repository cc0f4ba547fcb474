"""What a plan costs in dollars, item by item, as the official scorer counts it. Attractions are free."""

from collections.abc import Sequence
from math import ceil

from certigraph.adapters.travelplanner.data.sandbox import Accommodation, Attraction, Restaurant, Sandbox
from certigraph.adapters.travelplanner.official.parsing import booked_kind, distance_cost, ends_of, flight_number, item
from certigraph.adapters.travelplanner.official.plans import Day, Plan, current_city, entry, meals

SEATS = {"self-driving": 5, "taxi": 4}


def match_restaurant(name: str, city: str, sandbox: Sandbox) -> Sequence[Restaurant]:
    """The city's restaurants whose name contains `name`, in file order; the first one is charged."""
    return [row for row in sandbox.restaurants(city) if name in row.name]


def match_accommodation(name: str, city: str, sandbox: Sandbox) -> Sequence[Accommodation]:
    """The city's accommodations whose name contains `name`, in file order; the first one is charged."""
    return [row for row in sandbox.accommodations(city) if name in row.name]


def match_attraction(name: str, city: str, sandbox: Sandbox) -> Sequence[Attraction]:
    """The city's attractions whose name contains `name`, in file order."""
    return [row for row in sandbox.attractions(city) if name in row.name]


def known_transport(text: str, city: str, sandbox: Sandbox) -> bool:
    """Whether the flight flies there, on any date as officially, or a car gets there in less than a day."""
    kind, ends = booked_kind(text), ends_of(text, city)
    if kind is None or ends is None:
        return False
    if kind == "flight":
        return flight_number(text) in {flight.number for flight in sandbox.flights(*ends)}
    return distance_cost(kind, sandbox.distance(*ends)) is not None


def meal_cost(text: str, people: int, sandbox: Sandbox) -> float:
    """Dollars for one meal of all people; 0 if the restaurant is unknown."""
    rows = match_restaurant(*item(text), sandbox)
    return rows[0].cost * people if rows else 0


def accommodation_cost(text: str, people: int, sandbox: Sandbox) -> float:
    """Dollars for one night of all people, rooms rounded up; 0 if the place is unknown."""
    rows = match_accommodation(*item(text), sandbox)
    return rows[0].price * ceil(people / rows[0].maximum_occupancy) if rows else 0


def transport_cost(text: str, city: str, people: int, sandbox: Sandbox) -> float:
    """Dollars for a transportation of all people, cars rounded up; 0 if it is unknown.

    Args:
        text: the day's transportation.
        city: the day's `current_city`, read where the transportation itself has no "from A to B".
        people: how many travel.
        sandbox: prices and distances.
    """
    kind, ends = booked_kind(text), ends_of(text, city)
    if kind is None or ends is None:
        return 0
    if kind == "flight":
        flight = sandbox.flight(flight_number(text))
        return flight.price * people if flight else 0
    return (distance_cost(kind, sandbox.distance(*ends)) or 0) * ceil(people / SEATS[kind])


def day_cost(day: Day, people: int, sandbox: Sandbox) -> float:
    """Dollars for one day of a plan; the accommodation is charged on every day that lists it."""
    transport = transport_cost(entry(day, "transportation"), current_city(day), people, sandbox)
    food = sum(meal_cost(meal, people, sandbox) for meal in meals(day))
    return transport + food + accommodation_cost(entry(day, "accommodation"), people, sandbox)


def total_cost(people: int, plan: Plan, sandbox: Sandbox) -> float:
    """Dollars for all days given; whoever scores a plan cuts it to the query's days first."""
    return sum(day_cost(day, people, sandbox) for day in plan)
