"""A link between `conductor connect` and a server is cut in each phase of a turn, and the editor
notices nothing.

`tests.harness.process.cutter` stands between and cuts before, within or after a message. What a
long run with many editors loses or doubles, `python -m benchmarks.chaos --links` counts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Final

import pytest

from tests.harness.process.cutter import DOWN, UP, Cutter, Where
from tests.harness.process.rig import Chain, Rig

PROFILES: Final = ("ws", "http")
PHASES: Final = (
    (UP, b"GET /acp"),
    (DOWN, b"HTTP/1.1 "),
    (UP, b"session/prompt"),
    (DOWN, b"session/update"),
    (DOWN, b"session/request_permission"),
    (UP, b"optionId"),
    (DOWN, b"stopReason"),
)
ALLOWED: Final = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}
STREAM: Final = [f"{number:08d}" + "." * 12 for number in range(40)]


@contextmanager
def connected(rig: Rig, profile: str) -> Iterator[tuple[Chain, Cutter]]:
    """An editor's end of a chain behind a server, and what is between."""
    server = rig.agent(rig.demo(), options=("--listen", f"{profile}://127.0.0.1:0"))
    server.until_stderr("://127.0.0.1:")
    port = int(server.stderr.partition("://127.0.0.1:")[2].partition("/")[0])
    with Cutter(port) as cutter:
        editor = rig.run("connect", f"{profile}://127.0.0.1:{cutter.port}")
        editor.serves["session/request_permission"] = lambda _: ALLOWED
        yield editor, cutter
        assert editor.finish() == 0, editor.story()
    answers = [frame["id"] for frame in editor.frames if "method" not in frame]
    assert len(answers) == len(set(answers)), "an answer came twice"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_turn_survives_a_cut_in_each_phase(rig: Rig, profile: str) -> None:
    with connected(rig, profile) as (editor, cutter):
        session = editor.begin()
        for count, ((way, text), where) in enumerate(product(PHASES, Where), 1):
            cutter.when(way, text, where)
            if b" " in text:  # of a handshake: there has to be one
                cutter.cut()
            said = editor.prompt(session, "/permission ä")
            streamed = editor.prompt(session, f"/stream {len(STREAM)} 20")

            assert (said, streamed) == ("permission: allow-once", "".join(STREAM)), (text, where)
            assert len(editor.seen("session/request_permission")) == count, (text, where)
            assert cutter.waiting == 0, (text, where)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_turn_survives_cuts_that_wait_for_nothing(rig: Rig, profile: str) -> None:
    with connected(rig, profile) as (editor, cutter):
        session = editor.begin()
        beside = editor.new_session()
        cutter.cut()
        assert editor.prompt(session, f"/stream {len(STREAM)} 20") == "".join(STREAM)

        editor.serves["session/request_permission"] = None
        asked = editor.start_prompt(session, "/permission while away")
        question = editor.expect("session/request_permission")
        cutter.refuse(True)
        editor.send({"jsonrpc": "2.0", "id": question["id"], "result": ALLOWED})
        other = editor.start_prompt(beside, f"/stream {len(STREAM)} 20")
        cutter.refuse(False)
        assert editor.answer(asked)["result"]["stopReason"] == "end_turn"
        assert editor.answer(other)["result"]["stopReason"] == "end_turn"
        assert editor.texts(beside) == STREAM
        assert editor.texts(session)[-1] == "permission: allow-once"
