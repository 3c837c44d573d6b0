"""Gives the agent tools: sums, and a slow count that tells how far it is.

conductor exec ./add_tool.py demo -p '/tool add {"a": 2, "b": 3}'
"""

from dataclasses import dataclass
from typing import Literal

from guest_sdk.python import Call, Proxy

proxy = Proxy(
    "add-tool", rights={"serve:tools": "to add numbers for the agent"}, description="Arithmetic."
)


@dataclass
class Shape:
    """A rectangle; lengths in metres."""

    width: float
    height: float = 1.0


@proxy.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@proxy.tool
def area(shape: Shape, unit: Literal["m2", "cm2"] = "m2") -> dict:
    """The area of a rectangle."""
    return {"area": shape.width * shape.height * (1 if unit == "m2" else 10_000), "unit": unit}


@proxy.tool(name="count", title="Count")
async def count_up(to: int, call: Call) -> str:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        call.progress(number, to)
    return f"counted to {to} in session {call.session.id}"


@proxy.tool
def divide(a: float, b: float) -> float:
    """Divides; fails for b = 0."""
    return a / b


if __name__ == "__main__":
    proxy.run()
