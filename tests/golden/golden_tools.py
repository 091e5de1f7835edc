"""Tools with a state."""

ROWS = {"Fremont": 3, "Oakland": 2, "San Jose": 3, "Davis": 1}


def new_state():
    return {"searches": 0}


def search(state, city: str, limit: int = 3) -> list:
    """Places in a city."""
    state["searches"] += 1
    return [{"name": f"House {number} of {city}"} for number in range(min(limit, ROWS.get(city, 0)))]


def count(state) -> dict:
    """How often was searched."""
    return {"searches": state["searches"]}
