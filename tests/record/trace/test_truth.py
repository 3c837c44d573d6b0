"""Traces are true whatever guests do, and nobody is told another byte because of one."""

import tempfile
from pathlib import Path
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.policy.words import TRUSTED
from tests.harness.world.hosts import HostedChain, Step
from tests.record.trace import pairs
from tests.record.trace.files import traced as file_of

PROFILES: Final = ("full", "context", "filter", "observer", "serve:tools", TRUSTED)


def _session(method: str, **more: object) -> dict[str, object]:
    return {"method": method, "params": {"sessionId": "S", **more}}


SAID: Final[tuple[tuple[str, dict[str, object]], ...]] = (
    ("client", {"id": 1, "method": "session/new", "params": {"cwd": "/"}}),
    ("client", {"id": 2, **_session("session/prompt", prompt=[])}),
    ("client", {"id": 3, **_session("session/set_mode", modeId="m")}),
    ("client", _session("session/cancel")),
    ("client", {"method": "$/cancel_request", "params": {"requestId": 2}}),
    ("client", {"id": 4, **_session("_extension")}),
    ("agent", {"id": 5, **_session("fs/read_text_file", path="/x")}),
    ("agent", {"method": "$/cancel_request", "params": {"requestId": 1}}),
    ("client", {"id": 1, "result": {"outcome": {"outcome": "cancelled"}}}),
    ("client", {"id": 5, "result": {"content": ""}}),
    ("agent", _session("session/update", update={"sessionUpdate": "plan", "entries": []})),
)  # fmt: skip
STEPS: Final = st.builds(
    lambda said, settle: Step(said[0], said[1], settle), st.sampled_from(SAID), st.booleans()
)
GROUPS: Final = st.lists(
    st.lists(st.sampled_from(PROFILES), min_size=1, max_size=3), min_size=1, max_size=2
)
TAPES: Final = st.lists(st.lists(st.integers(0, 63), max_size=12), max_size=4)
MISHAPS: Final = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 3), st.booleans()), max_size=2
)
"""Before which step which guest is gone, and whether it comes back."""


@settings(max_examples=150, deadline=None)
@given(GROUPS, TAPES, st.lists(STEPS, max_size=9), MISHAPS, st.booleans())
def test_each_request_is_answered_once_at_every_hop(
    groups: list[list[str]],
    tapes: list[list[int]],
    steps: list[Step],
    mishaps: list[tuple[int, int, bool]],
    alone: bool,
) -> None:
    names = iter("abcdef")
    chain = [[(next(names), one) for one in group] for group in groups]
    if alone:
        chain = [[(name.upper(), held) for name, held in one] for one in chain]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        tracer = file_of(path)
        traced, bare = HostedChain(chain, tapes, tracer), HostedChain(chain, tapes)
        audited = HostedChain(chain, tapes, audited=True)
        for world in (traced, bare, audited):
            for at, step in enumerate(steps):
                for when, who, returns in mishaps:
                    if when == at:
                        name = world.names[who % len(world.names)]
                        (world.restart if returns else world.bypass)(name)
                world.play([step])
            world.end()
        traced.close()
        events = pairs.read(path)
    marks = [line for lines in traced.told.values() for line in lines if line[:1] == b"#"]
    assert marks == []
    assert traced.told == bare.told
    assert audited.told == bare.told
    assert pairs.wrong(events, whole=not traced.open) == []
