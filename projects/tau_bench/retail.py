"""The shop's sixteen tools, as ``tools.json`` and ``policy.md`` describe them.

A tool checks an order's state, that items are there and payments are the user's; what else the policy asks (who the
user is, that they said yes) is the agent's to keep.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from world import Base, World, arithmetic, read_part, read_tables, with_provinces

__all__ = [
    "calculate", "cancel_pending_order", "exchange_delivered_order_items", "find_user_id_by_email",
    "find_user_id_by_name_zip", "get_order_details", "get_product_details", "get_user_details",
    "list_all_product_types", "modify_pending_order_address", "modify_pending_order_items",
    "modify_pending_order_payment", "modify_user_address", "return_delivered_order_items", "think",
    "transfer_to_human_agents",
]  # fmt: skip

MODIFIED = "pending (item modified)"
"""The state of an order whose items were exchanged before it was sent; it cannot be changed again."""


def new_state(data: str | Path | None = None) -> World:
    """The database as it is in ``data``."""
    tables = read_tables(data, ("users", "orders", "products"), __name__)
    tables["users"] = with_provinces(tables["users"])
    tables["emails"] = {user["email"].lower(): {"id": name} for name, user in tables["users"].items()}
    people: dict[str, Any] = {}
    for name, user in tables["users"].items():
        called = user["name"]
        people.setdefault(_person(called["first_name"], called["last_name"], user["address"]["zip"]), {"id": name})
    types = {product["name"]: name for name, product in tables["products"].items()}
    return World(Base(tables | {"people": people, "types": {"all": dict(sorted(types.items()))}}))


def schemas(data: str | Path | None = None) -> Any:
    """The tools' schemas, of ``tools.json``."""
    return read_part(data, "tools", list, __name__)


def _person(first: str, last: str, code: str) -> str:
    return f"{first.lower()} {last.lower()} {code}"


def calculate(expression: str) -> str:
    """Calculate the result of a mathematical expression."""
    try:
        return str(round(arithmetic(expression), 2))
    except ValueError as error:
        return f"Error: {error}"


def _pay(state: World, order: dict[str, Any], method_id: str, amount: float) -> str:
    """Book what is to be paid (below 0: to be given back) on a user's gift card; what is wrong with it."""
    user = state.get("users", order["user_id"])
    method = user["payment_methods"].get(method_id)
    if method is None:
        return "Error: payment method not found"
    if method["source"] == "gift_card":
        if method["balance"] < amount:
            return "Error: insufficient gift card balance to pay for the price difference"
        method["balance"] = round(method["balance"] - amount, 2)
        state.put("users", order["user_id"], user)
    return ""


def _transaction(kind: str, amount: float, method_id: str) -> dict[str, Any]:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}


def cancel_pending_order(state: World, order_id: str, reason: str) -> Any:
    """Cancel a pending order; what was paid by gift card is back on it at once."""
    order = state.get("orders", order_id)
    if order is None:
        return "Error: order not found"
    if order["status"] != "pending":
        return "Error: non-pending order cannot be cancelled"
    if reason not in ("no longer needed", "ordered by mistake"):
        return "Error: invalid reason"
    refunds = []
    for payment in order["payment_history"]:
        _pay(state, order, payment["payment_method_id"], -payment["amount"])
        refunds.append(_transaction("refund", payment["amount"], payment["payment_method_id"]))
    order |= {"status": "cancelled", "cancel_reason": reason}
    order["payment_history"] += refunds
    state.put("orders", order_id, order)
    return order


def _exchanged(
    state: World, order: dict[str, Any], item_ids: list[str], new_item_ids: list[str]
) -> tuple[list[tuple[dict[str, Any], dict[str, Any]]], float] | str:
    """Items of an order with the variants that take their place, and the difference in price; or what is wrong."""
    there = Counter(item["item_id"] for item in order["items"])
    for item_id, count in Counter(item_ids).items():
        if count > there[item_id]:
            return f"Error: {item_id} not found"
    if len(item_ids) != len(new_item_ids):
        return "Error: the number of items to be exchanged should match"
    pairs, taken = [], set[int]()
    for item_id, new_id in zip(item_ids, new_item_ids, strict=True):
        place = next(n for n, item in enumerate(order["items"]) if item["item_id"] == item_id and n not in taken)
        taken.add(place)
        item = order["items"][place]
        variant = state.get("products", item["product_id"])["variants"].get(new_id)
        if variant is None or not variant["available"]:
            return f"Error: new item {new_id} not found or available"
        pairs.append((item, variant))
    return pairs, sum(variant["price"] - item["price"] for item, variant in pairs)


def exchange_delivered_order_items(
    state: World, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Any:
    """Exchange items in a delivered order to new items of the same product type."""
    order = state.get("orders", order_id)
    if order is None:
        return "Error: order not found"
    if order["status"] != "delivered":
        return "Error: non-delivered order cannot be exchanged"
    exchanged = _exchanged(state, order, item_ids, new_item_ids)
    if isinstance(exchanged, str):
        return exchanged
    difference = round(exchanged[1], 2)
    method = state.get("users", order["user_id"])["payment_methods"].get(payment_method_id)
    if method is None:
        return "Error: payment method not found"
    if method["source"] == "gift_card" and method["balance"] < difference:
        return "Error: insufficient gift card balance to pay for the price difference"
    order |= {
        "status": "exchange requested",
        "exchange_items": sorted(item_ids),
        "exchange_new_items": sorted(new_item_ids),
        "exchange_payment_method_id": payment_method_id,
        "exchange_price_difference": difference,
    }
    state.put("orders", order_id, order)
    return order


def find_user_id_by_email(state: World, email: str) -> str:
    """Find user id by email."""
    found = state.get("emails", email.lower())
    return str(found["id"]) if found else "Error: user not found"


def find_user_id_by_name_zip(state: World, first_name: str, last_name: str, zip: str) -> str:
    """Find user id by first name, last name, and zip code."""
    found = state.get("people", _person(first_name, last_name, zip))
    return str(found["id"]) if found else "Error: user not found"


def get_order_details(state: World, order_id: str) -> Any:
    """Get the status and details of an order."""
    return state.get("orders", order_id) or "Error: order not found"


def get_product_details(state: World, product_id: str) -> Any:
    """Get the inventory details of a product."""
    return state.get("products", product_id) or "Error: product not found"


def get_user_details(state: World, user_id: str) -> Any:
    """Get the details of a user, including their orders."""
    return state.get("users", user_id) or "Error: user not found"


def list_all_product_types(state: World) -> Any:
    """List the name and product id of all product types."""
    return state.get("types", "all")


def modify_pending_order_address(
    world: World, /, order_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
) -> Any:
    """Modify the shipping address of a pending order."""
    order = world.get("orders", order_id)
    if order is None:
        return "Error: order not found"
    if not order["status"].startswith("pending"):
        return "Error: non-pending order cannot be modified"
    order["address"] = _address(address1, address2, city, state, country, zip)
    world.put("orders", order_id, order)
    return order


def _address(address1: str, address2: str, city: str, state: str, country: str, code: str) -> dict[str, str]:
    lines = {"address1": address1, "address2": address2}
    return lines | {"city": city, "state": state, "country": country, "zip": code}


def modify_pending_order_items(
    state: World, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Any:
    """Modify items in a pending order to new items of the same product type."""
    order = state.get("orders", order_id)
    if order is None:
        return "Error: order not found"
    if order["status"] != "pending":
        return "Error: non-pending order cannot be modified"
    exchanged = _exchanged(state, order, item_ids, new_item_ids)
    if isinstance(exchanged, str):
        return exchanged
    pairs, difference = exchanged
    if problem := _pay(state, order, payment_method_id, difference):
        return problem
    kind = "payment" if difference > 0 else "refund"
    order["payment_history"].append(_transaction(kind, abs(difference), payment_method_id))
    for item, variant in pairs:
        item |= {name: variant[name] for name in ("item_id", "price", "options")}
    order["status"] = MODIFIED
    state.put("orders", order_id, order)
    return order


def modify_pending_order_payment(state: World, order_id: str, payment_method_id: str) -> Any:
    """Modify the payment method of a pending order."""
    order = state.get("orders", order_id)
    if order is None:
        return "Error: order not found"
    if not order["status"].startswith("pending"):
        return "Error: non-pending order cannot be modified"
    method = state.get("users", order["user_id"])["payment_methods"].get(payment_method_id)
    if method is None:
        return "Error: payment method not found"
    history = order["payment_history"]
    if len(history) != 1 or history[0]["transaction_type"] != "payment":
        return "Error: there should be exactly one payment for a pending order"
    before, amount = history[0]["payment_method_id"], history[0]["amount"]
    if before == payment_method_id:
        return "Error: the new payment method should be different from the current one"
    if method["source"] == "gift_card" and method["balance"] < amount:
        return "Error: insufficient gift card balance to pay for the order"
    _pay(state, order, payment_method_id, amount)
    _pay(state, order, before, -amount)
    history += [_transaction("payment", amount, payment_method_id), _transaction("refund", amount, before)]
    state.put("orders", order_id, order)
    return order


def modify_user_address(
    world: World, /, user_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
) -> Any:
    """Modify the default address of a user."""
    user = world.get("users", user_id)
    if user is None:
        return "Error: user not found"
    user["address"] = _address(address1, address2, city, state, country, zip)
    world.put("users", user_id, user)
    return user


def return_delivered_order_items(state: World, order_id: str, item_ids: list[str], payment_method_id: str) -> Any:
    """Return some items of a delivered order."""
    order = state.get("orders", order_id)
    if order is None:
        return "Error: order not found"
    if order["status"] != "delivered":
        return "Error: non-delivered order cannot be returned"
    if payment_method_id not in state.get("users", order["user_id"])["payment_methods"]:
        return "Error: payment method not found"
    is_original = payment_method_id == order["payment_history"][0]["payment_method_id"]
    if not is_original and "gift_card" not in payment_method_id:
        return "Error: payment method should be either the original payment method or a gift card"
    if Counter(item_ids) - Counter(item["item_id"] for item in order["items"]):
        return "Error: some item not found"
    order |= {
        "status": "return requested",
        "return_items": sorted(item_ids),
        "return_payment_method_id": payment_method_id,
    }
    state.put("orders", order_id, order)
    return order


def think(thought: str) -> str:
    """Think about something; nothing comes of it."""
    return ""


def transfer_to_human_agents(summary: str) -> str:
    """Transfer the user to a human agent, with a summary of the user's issue."""
    return "Transfer successful"
