"""The fuzzer's material: golden conversations, the corpus, and ways to damage a line."""

from pathlib import Path
from typing import Final, NamedTuple

from hypothesis import strategies as st

from conductor.core import CHANNEL, DIALECTS, Component, Dialect
from conductor.core.router import Router, RouterOptions

HERE: Final = Path(__file__).parent
GOLDEN: Final = HERE.parent / "golden"
CORPUS: Final = {
    path.stem: path.read_bytes().rstrip(b"\n") for path in sorted((HERE / "corpus").glob("*.json"))
}
"""Odd frames by name."""


class Said(NamedTuple):
    """A line of a conversation, with its speaker."""

    peer: str
    frame: bytes


def conversation(name: str) -> list[Said]:
    """The lines of the peers in a golden transcript."""
    said = []
    for line in (GOLDEN / f"{name}.txt").read_bytes().splitlines():
        peer, mark, frame = line.partition(b"> ")
        if mark and b" " not in peer:
            said.append(Said(peer.decode(), frame))
    return said


def _names() -> list[str]:
    return sorted(path.stem for path in GOLDEN.glob("*.txt"))


CONVERSATIONS: Final = {name: conversation(name) for name in _names()}
"""Every golden transcript."""


def router(name: str) -> Router:
    """The router a golden transcript was made with."""
    kind, _, mode = name.partition("-")
    dialect: Dialect | None = DIALECTS[kind]
    if mode == "proxy":
        upstream = CHANNEL if kind == "channel" else None
        return Router(
            [Component("p1", dialect=dialect)], "proxy", options=RouterOptions(upstream=upstream)
        )
    told = dialect if mode == "agent" else None
    return Router([Component("p1", dialect=told), Component("agent")])


TOKENS: Final = (
    b"", b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"null", b"true", b"1", b"-1", b"1e400",
    b'"id"', b'"id":1,', b'"method":"initialize",', b'"method":"proxy/successor",', b'"result":{},',
    b'"error":{},', b'"params":{},', b'"jsonrpc":"1.0",', b"\\u0000", b"\\ud800", b"\xff", b"\xc3",
    b"\0", b"\r", b"p", b"s", b"c", b"[" * 600,
)  # fmt: skip
"""Pieces that mean something where they are put."""


@st.composite
def cut(draw: st.DrawFn, frame: bytes) -> bytes:
    """Bytes after one to three cuts, each with something in place of the cut part."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(frame)))
        end = min(len(frame), start + draw(st.integers(0, 12)))
        frame = frame[:start] + draw(st.sampled_from(TOKENS) | st.binary(max_size=6)) + frame[end:]
    return frame


def damaged(frame: bytes) -> st.SearchStrategy[bytes]:
    """A frame after such cuts, still one line."""
    return cut(frame).map(_one_line)


def strange(said: list[Said]) -> st.SearchStrategy[bytes]:
    """A frame that a stranger might write, by the lines of others."""
    known = st.sampled_from([*CORPUS.values(), *(each.frame for each in said)])
    return known | known.flatmap(damaged) | st.binary(max_size=60).map(_one_line)


def _one_line(data: bytes) -> bytes:
    return data.replace(b"\n", b" ")
