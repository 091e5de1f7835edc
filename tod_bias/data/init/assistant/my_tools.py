"""The tools: a function per tool, with the arguments of tools.json. Put yours in its place."""


def find_hotels(city, nights, limit=3):
    return [{"name": f"{name} {city}", "city": city} for name in ("Ritz", "Crown", "Inn")][:limit]
