"""The airline's fourteen tools, as ``tools.json`` and ``policy.md`` describe them.

What only the policy forbids (basic economy, refunds by reason, two certificates) is the agent's to keep: a tool checks
that flights can be booked, that payments are the user's and cover the price, and nothing else.
"""

from __future__ import annotations

from datetime import date as Date
from datetime import timedelta
from pathlib import Path
from typing import Any

from world import Base, World, arithmetic, read_part, read_tables, with_provinces

__all__ = [
    "book_reservation", "calculate", "cancel_reservation", "get_reservation_details", "get_user_details",
    "list_all_airports", "search_direct_flight", "search_onestop_flight", "send_certificate", "think",
    "transfer_to_human_agents", "update_reservation_baggages", "update_reservation_flights",
    "update_reservation_passengers",
]  # fmt: skip

NOW = "2024-05-15T15:00:00"
"""The time of ``policy.md``."""
AIRPORTS = {
    "SFO": "San Francisco", "JFK": "New York", "LAX": "Los Angeles", "ORD": "Chicago", "DFW": "Dallas",
    "DEN": "Denver", "SEA": "Seattle", "ATL": "Atlanta", "MIA": "Miami", "BOS": "Boston", "PHX": "Phoenix",
    "IAH": "Houston", "LAS": "Las Vegas", "MCO": "Orlando", "EWR": "Newark", "CLT": "Charlotte",
    "MSP": "Minneapolis", "DTW": "Detroit", "PHL": "Philadelphia", "LGA": "LaGuardia",
}  # fmt: skip
"""The airports that the airline flies to."""
_RESERVATIONS = ("HATHAT", "HATHAU", "HATHAV")
"""Ids of new reservations, in order."""
_CERTIFICATES = (3221322, 3221323, 3221324)
"""Numbers of new certificates, in order."""
_BAGGAGE, _INSURANCE = 50, 30
"""Dollars a piece of luggage that is not free, and a passenger's insurance."""


def new_state(data: str | Path | None = None) -> World:
    """The database as it is in ``data``."""
    tables = read_tables(data, ("users", "reservations", "flights"), __name__)
    flights = tables["flights"]
    tables["users"] = with_provinces(tables["users"])
    tables["days"] = {
        f"{name} {day}": on_day for name, flight in flights.items() for day, on_day in flight["dates"].items()
    }
    tables["flights"] = {
        name: {field: value for field, value in flight.items() if field != "dates"} for name, flight in flights.items()
    }
    return World(Base(tables, {"flights": ("origin",)}))


def schemas(data: str | Path | None = None) -> Any:
    """The tools' schemas, of ``tools.json``."""
    return read_part(data, "tools", list, __name__)


def _flight(state: World, number: str, day: str, cabin: str, passengers: int) -> dict[str, Any] | str:
    """A segment that can be booked, or why it cannot."""
    flight = state.get("flights", number)
    if flight is None:
        return f"Error: flight {number} not found"
    on_day = state.get("days", f"{number} {day}")
    if on_day is None:
        return f"Error: flight {number} not found on date {day}"
    if on_day["status"] != "available":
        return f"Error: flight {number} not available on date {day}"
    if on_day["available_seats"][cabin] < passengers:
        return f"Error: not enough seats on flight {number}"
    ends = {name: flight[name] for name in ("origin", "destination")}
    return {"flight_number": number, "date": day, "price": on_day["prices"][cabin], **ends}


def book_reservation(
    state: World,
    user_id: str,
    origin: str,
    destination: str,
    flight_type: str,
    cabin: str,
    flights: list[dict[str, Any]],
    passengers: list[dict[str, Any]],
    payment_methods: list[dict[str, Any]],
    total_baggages: int,
    nonfree_baggages: int,
    insurance: str,
) -> Any:
    """Book a reservation."""
    user = state.get("users", user_id)
    if user is None:
        return "Error: user not found"
    segments = []
    for flight in flights:
        segment = _flight(state, flight["flight_number"], flight["date"], cabin, len(passengers))
        if isinstance(segment, str):
            return segment
        segments.append(segment)
    price = sum(segment["price"] for segment in segments) * len(passengers)
    price += _INSURANCE * len(passengers) if insurance == "yes" else 0
    price += _BAGGAGE * nonfree_baggages
    for payment in payment_methods:
        method = user["payment_methods"].get(payment["payment_id"])
        if method is None:
            return f"Error: payment method {payment['payment_id']} not found"
        if method["source"] != "credit_card" and method["amount"] < payment["amount"]:
            return f"Error: not enough balance in payment method {payment['payment_id']}"
    paid = sum(payment["amount"] for payment in payment_methods)
    if paid != price:
        return f"Error: payment amount does not add up, total price is {price}, but paid {paid}"
    name = next((name for name in _RESERVATIONS if state.get("reservations", name) is None), None)
    if name is None:
        return "Error: no more reservations can be made"
    for payment in payment_methods:
        method = user["payment_methods"][payment["payment_id"]]
        if method["source"] == "certificate":
            del user["payment_methods"][payment["payment_id"]]  # what is left of it is not refunded
        elif method["source"] == "gift_card":
            method["amount"] -= payment["amount"]
    reservation = {
        "reservation_id": name,
        "user_id": user_id,
        "origin": origin,
        "destination": destination,
        "flight_type": flight_type,
        "cabin": cabin,
        "flights": segments,
        "passengers": passengers,
        "payment_history": payment_methods,
        "created_at": NOW,
        "total_baggages": total_baggages,
        "nonfree_baggages": nonfree_baggages,
        "insurance": insurance,
    }
    user["reservations"].append(name)
    state.put("users", user_id, user)
    state.put("reservations", name, reservation)
    return reservation


def calculate(expression: str) -> str:
    """Calculate the result of a mathematical expression."""
    try:
        return str(round(arithmetic(expression), 2))
    except ValueError as error:
        return f"Error: {error}"


def cancel_reservation(state: World, reservation_id: str) -> Any:
    """Cancel the whole reservation."""
    reservation = state.get("reservations", reservation_id)
    if reservation is None:
        return "Error: reservation not found"
    refunds = [
        {"payment_id": payment["payment_id"], "amount": -payment["amount"]}
        for payment in reservation["payment_history"]
    ]
    reservation["payment_history"] += refunds
    reservation["status"] = "cancelled"
    state.put("reservations", reservation_id, reservation)
    return reservation


def get_reservation_details(state: World, reservation_id: str) -> Any:
    """Get the details of a reservation."""
    return state.get("reservations", reservation_id) or "Error: reservation not found"


def get_user_details(state: World, user_id: str) -> Any:
    """Get the details of a user, including their reservations."""
    return state.get("users", user_id) or "Error: user not found"


def list_all_airports() -> dict[str, str]:
    """List all airports and their cities."""
    return dict(AIRPORTS)


def _departures(state: World, origin: str, date: str, priced: str = "") -> list[dict[str, Any]]:
    """The flights from an airport that can be booked on a day, with the seats and prices of ``priced`` (that day)."""
    found = []
    for number in state.base.ids("flights", "origin", origin):
        on_day = state.get("days", f"{number} {date}")
        shown = state.get("days", f"{number} {priced}") if priced else on_day
        if on_day and shown and on_day["status"] == "available" and shown["status"] == "available":
            day = {name: shown[name] for name in ("status", "available_seats", "prices")}
            found.append(state.get("flights", number) | day)
    return found


def search_direct_flight(state: World, origin: str, destination: str, date: str) -> list[dict[str, Any]]:
    """Search direct flights between two cities on a specific date."""
    return [flight for flight in _departures(state, origin, date) if flight["destination"] == destination]


def search_onestop_flight(state: World, origin: str, destination: str, date: str) -> list[list[dict[str, Any]]]:
    """Search flights with one stop between two cities on a specific date.

    Where the second leaves on the next day, its seats and prices are those of the first day, as in the recorded runs.
    """
    found = []
    for first in _departures(state, origin, date):
        arrival = first["scheduled_arrival_time_est"]
        is_next = arrival.endswith("+1")
        day = str(Date.fromisoformat(date) + timedelta(1)) if is_next else date
        for second in _departures(state, first["destination"], day, date if is_next else ""):
            if second["destination"] == destination and second["scheduled_departure_time_est"] >= arrival:
                found.append([first | {"date": date}, second | {"date": day}])
    return found


def send_certificate(state: World, user_id: str, amount: float) -> str:
    """Send a certificate to a user."""
    user = state.get("users", user_id)
    if user is None:
        return "Error: user not found"
    for number in _CERTIFICATES:
        name = f"certificate_{number}"
        if name not in user["payment_methods"]:
            user["payment_methods"][name] = {"source": "certificate", "amount": amount, "id": name}
            state.put("users", user_id, user)
            return f"Certificate {name} added to user {user_id} with amount {amount}."
    return "Error: no more certificates can be sent"


def think(thought: str) -> str:
    """Think about something; nothing comes of it."""
    return ""


def transfer_to_human_agents(summary: str) -> str:
    """Transfer the user to a human agent, with a summary of the user's issue."""
    return "Transfer successful"


def _charged(state: World, reservation: dict[str, Any], payment_id: str, price: float) -> str:
    """Book an amount, or a refund, to a payment method of the user; what is wrong with it."""
    user = state.get("users", reservation["user_id"])
    method = user["payment_methods"].get(payment_id)
    if method is None:
        return "Error: payment method not found"
    if method["source"] == "certificate":
        return "Error: certificate cannot be used to update reservation"
    if method["source"] == "gift_card":
        if method["amount"] < price:
            return "Error: gift card balance is not enough"
        method["amount"] -= price
        state.put("users", reservation["user_id"], user)
    if price:
        reservation["payment_history"].append({"payment_id": payment_id, "amount": price})
    return ""


def update_reservation_baggages(
    state: World, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
) -> Any:
    """Update the baggage information of a reservation."""
    reservation = state.get("reservations", reservation_id)
    if reservation is None:
        return "Error: reservation not found"
    price = _BAGGAGE * max(0, nonfree_baggages - reservation["nonfree_baggages"])
    if problem := _charged(state, reservation, payment_id, price):
        return problem
    reservation |= {"total_baggages": total_baggages, "nonfree_baggages": nonfree_baggages}
    state.put("reservations", reservation_id, reservation)
    return reservation


def update_reservation_flights(
    state: World, reservation_id: str, cabin: str, flights: list[dict[str, Any]], payment_id: str
) -> Any:
    """Update the flight information of a reservation; segments that are kept in their cabin keep their price."""
    reservation = state.get("reservations", reservation_id)
    if reservation is None:
        return "Error: reservation not found"
    passengers = len(reservation["passengers"])
    before = {(flight["flight_number"], flight["date"]): flight for flight in reservation["flights"]}
    segments = []
    for flight in flights:
        kept = before.get((flight["flight_number"], flight["date"]))
        if kept is not None and cabin == reservation["cabin"]:
            segments.append(kept)
            continue
        segment = _flight(state, flight["flight_number"], flight["date"], cabin, passengers)
        if isinstance(segment, str):
            return segment
        segments.append(segment)
    now, then = (sum(flight["price"] for flight in flown) for flown in (segments, reservation["flights"]))
    if problem := _charged(state, reservation, payment_id, (now - then) * passengers):
        return problem
    reservation["flights"] = segments  # the cabin stays as it was booked, in the recorded runs too
    state.put("reservations", reservation_id, reservation)
    return reservation


def update_reservation_passengers(state: World, reservation_id: str, passengers: list[dict[str, Any]]) -> Any:
    """Update the passenger information of a reservation."""
    reservation = state.get("reservations", reservation_id)
    if reservation is None:
        return "Error: reservation not found"
    if len(passengers) != len(reservation["passengers"]):
        return "Error: number of passengers does not match"
    reservation["passengers"] = passengers
    state.put("reservations", reservation_id, reservation)
    return reservation
