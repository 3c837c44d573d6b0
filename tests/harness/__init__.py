"""The five harnesses of the tests, from the smallest piece of the product to the whole of it.

- `router`: the core alone. A playbook plays frames to a `Router` and asserts every effect.
- `world`: the core in random conversations, for properties: ends, guests, mishaps, time.
- `hub`: the hub of a server alone, between clients and agents that a test plays.
- `bridge`: MCP. The bridge between scripted ends, and the doors behind a scripted bridge.
- `process`: a real conductor, started through the command line, and its client.
"""
