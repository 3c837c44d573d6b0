"""The table of who interoperates with whom, in docs/remote.md."""

import re
from typing import Final

from tests.e2e.peers.remote.scenario import KINDS, PROFILES, Kind, Profile
from tests.places import ROOT

PAGE: Final = ROOT / "docs" / "remote.md"
_TABLE: Final = re.compile(
    r"(<!-- measured: interoperation -->\n).*?(<!-- /measured -->)", re.DOTALL
)

Pair = tuple[str, str]
Column = tuple[Profile, Kind]
COLUMNS: Final[tuple[Column, ...]] = tuple(
    (profile, kind) for profile in PROFILES for kind in KINDS
)
_HEADS: Final = {"http": "HTTP", "ws": "WebSocket"}
Cells = dict[tuple[Pair, Column], str]


def drawn(cells: Cells) -> str:
    """The table, a row for each pair."""
    heads = ["client", "server", *(f"{_HEADS[profile]}, {kind}" for profile, kind in COLUMNS)]
    pairs = dict.fromkeys(pair for pair, _ in cells)
    rows = [[*pair, *(cells[pair, column] for column in COLUMNS)] for pair in pairs]
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def written() -> Cells:
    """The cells of the table on the page."""
    found = _TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None, f"{PAGE} has no such table"
    cells: Cells = {}
    for line in found.group(0).splitlines()[3:-1]:
        client, server, *said = [cell.strip() for cell in line.strip("|").split(" | ")]
        cells |= {
            ((client, server), column): cell for column, cell in zip(COLUMNS, said, strict=True)
        }
    return cells


def write(cells: Cells) -> None:
    """Puts the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE.sub(lambda found: found[1] + drawn(cells) + found[2], text))
