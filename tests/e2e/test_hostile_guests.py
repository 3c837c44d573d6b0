"""Every module of tests/hostile behind the real command, with healthy guests beside it.

What is hostile stands between `datetime` and `passthrough`, in one child process with them, and
is told to be left out when it fails. So the neighbours' traffic shows whether they were harmed.
"""

from typing import Final, NamedTuple

import pytest

from tests.harness.process.client import FIRST_ID, Json
from tests.harness.process.rig import Chain, Rig
from tests.places import HOSTILE

BYPASSED: Final = "bypassed"
"""The guest fails on its first message. The chain goes on without it; the client notices
nothing."""

REFUSED: Final = "refused"
"""The guest cannot be loaded or started: `initialize` fails with the reason, and the chain ends."""

ASKED_AGAIN: Final = "asked again"
"""A program that fails before its dialect is known: `initialize` fails with the reason, and the
next `initialize` is served without the program."""

CLOCK: Final = ("-c", "clock=2025-10-08T12:34:56+00:00")
COUNT, SIZE = 200, 300
"""Updates of the healthy traffic, and bytes in each."""


class Verdict(NamedTuple):
    """The outcome of a module, the words about it, and the limits that the outcome needs."""

    outcome: str
    says: str
    limits: str = ""


LOOP: Final = "limit cpu_ms of 300 ms"
"""Only what never ends is given so little time: on a busy machine anything else might need it."""

VERDICTS: Final = {
    "abi_2": Verdict(REFUSED, "speaks channel ABI 2, this host speaks 1"),
    "abi_computed": Verdict(REFUSED, "speaks channel ABI 2, this host speaks 1"),
    "bare_side": Verdict(BYPASSED, "a side byte without a message"),
    "deep_json": Verdict(BYPASSED, "exceeded json_depth"),
    "empty_line": Verdict(BYPASSED, "an empty line"),
    "garbage_binary": Verdict(BYPASSED, r"began a line with '\x00' instead of a side byte"),
    "garbage_second_line": Verdict(BYPASSED, "began a line with 'q' instead of a side byte"),
    "garbage_side": Verdict(BYPASSED, "began a line with '{' instead of a side byte"),
    "grow_and_loop": Verdict(BYPASSED, LOOP),
    "grow_forever": Verdict(BYPASSED, "its limit memory_bytes is 67108864"),
    "huge_line": Verdict(BYPASSED, "58951424 over the limit of 1048576",
                         ",limit.message_bytes=1048576"),
    "huge_outbox": Verdict(BYPASSED, "58951424 over the limit of 1048576",
                           ",limit.outbox_bytes=1048576"),
    "import_host": Verdict(REFUSED, "has imports that no guest may have: env.system"),
    "import_memory": Verdict(REFUSED, "has imports that no guest may have: env.memory"),
    "loop_abi": Verdict(REFUSED, LOOP),
    "loop_deliver": Verdict(BYPASSED, LOOP),
    "loop_initialize": Verdict(REFUSED, LOOP),
    "loop_reserve": Verdict(BYPASSED, LOOP),
    "loop_start": Verdict(REFUSED, LOOP),
    "memory_declared": Verdict(REFUSED, "limit memory_bytes of 67108864 bytes"),
    "missing_exports": Verdict(REFUSED, "exports no memory"),
    "no_guest": Verdict(REFUSED, "(it exports: memory, add)"),
    "no_newline": Verdict(BYPASSED, "left its last line without a newline"),
    "recursion": Verdict(BYPASSED, "limit stack_bytes of 524288 bytes"),
    "table_declared": Verdict(REFUSED, "limit table_elements of 100000 elements"),
    "table_grow": Verdict(BYPASSED, "unreachable"),
    "too_many_messages": Verdict(BYPASSED, "200000 lines at once"),
    "trap_deliver": Verdict(BYPASSED, "unreachable"),
    "trap_divide": Verdict(BYPASSED, "integer divide by zero"),
    "trap_out_of_bounds": Verdict(BYPASSED, "out of bounds memory access"),
    "trap_start": Verdict(REFUSED, "unreachable"),
    "wasi_exit_0": Verdict(ASKED_AGAIN, "has ended by itself"),
    "wasi_exit_3": Verdict(ASKED_AGAIN, "exited with code 3"),
    "wasi_flood": Verdict(ASKED_AGAIN, "exceeded outbox_bytes", ",limit.outbox_bytes=999"),
    "wasi_half_line": Verdict(ASKED_AGAIN, "exceeded outbox_bytes", ",limit.outbox_bytes=1048576"),
    "wasi_loop": Verdict(ASKED_AGAIN, LOOP),
    "wasi_many_vectors": Verdict(BYPASSED, "exceeded outbox_bytes"),
    "wasi_poll_loop": Verdict(BYPASSED, LOOP),
    "wasi_random_loop": Verdict(BYPASSED, LOOP),
    "wasi_reach": Verdict(ASKED_AGAIN, "exited with code 42"),
    "wasi_return": Verdict(ASKED_AGAIN, "has ended by itself"),
    "wasi_sleeps": Verdict(BYPASSED, LOOP),
    "wasi_wild_vectors": Verdict(ASKED_AGAIN, "has ended by itself"),
    "wild_length": Verdict(BYPASSED, "channel_deliver names bytes 0 to 4294967295"),
    "wild_negative": Verdict(BYPASSED, "channel_deliver names bytes 4294967295 to 8589934590"),
    "wild_outbox": Verdict(BYPASSED, "channel_deliver names bytes 131056 to 131088"),
    "wild_outbox_far": Verdict(BYPASSED, "channel_deliver names bytes 4294967280 to"),
    "wild_outbox_wraps": Verdict(BYPASSED, "channel_deliver names bytes 4294967295 to 4294967297"),
    "wild_reserve": Verdict(BYPASSED, "channel_reserve names bytes 131070 to"),
    "wild_reserve_negative": Verdict(BYPASSED, "channel_reserve names bytes 4294967295 to"),
    "wild_reserve_wraps": Verdict(BYPASSED, "channel_reserve names bytes 4294967292 to"),
}  # fmt: skip

SILENT: Final = "wasi_ignores_end"
"""Reads on and on and never answers: a test of its own follows."""


def test_every_hostile_guest_has_a_verdict() -> None:
    assert {path.stem for path in HOSTILE.glob("*.wat")} == VERDICTS.keys() | {SILENT}


def _chain(rig: Rig, name: str, limits: str = "", options: tuple[str, ...] = ()) -> Chain:
    if name in VERDICTS and VERDICTS[name].says == LOOP:
        limits += ",limit.cpu_ms=300"
    if name.startswith("wasi_"):
        limits += ",only=full"  # so that `initialize` goes through it
    evil = f"{rig.hostile(name)},on_failure=bypass{limits}"
    return rig.agent("datetime", evil, "passthrough", rig.demo(), options=(*CLOCK, *options))


def _initialize(chain: Chain) -> Json:
    return chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})


def _unharmed(rig: Rig, chain: Chain) -> None:
    """The neighbours' traffic is complete and in order, and they have done their work."""
    session = chain.new_session()
    turn = chain.answer(chain.start_prompt(session, f"/stream {COUNT} {SIZE}"))
    assert turn["result"]["stopReason"] == "end_turn"
    texts = chain.texts(session)
    assert [int(text[:8]) for text in texts] == list(range(COUNT))
    assert {len(text) for text in texts} == {SIZE}
    (asked,) = [e for e in rig.log("A", "in") if e.frame.get("method") == "session/prompt"]
    assert b"2025-10-08" in asked.raw
    assert rig.methods("A").count("initialize") == 1
    answered = [f["id"] for f in chain.frames if "method" not in f]
    assert answered == list(range(FIRST_ID, FIRST_ID + len(answered)))
    assert chain.finish() == 0
    assert "error: " not in chain.stderr


@pytest.mark.proves("no hostile guest harms its neighbours")
@pytest.mark.parametrize("name", VERDICTS)
def test_a_hostile_guest_and_healthy_neighbours(rig: Rig, name: str) -> None:
    outcome, says, limits = VERDICTS[name]
    chain = _chain(rig, name, limits)
    answer = _initialize(chain)
    if outcome != BYPASSED:
        error = answer["error"]
        assert says in error["message"]
        assert f"`{name}`" in error["message"]
        assert "\nhint: " in error["message"]
        assert error["data"]["component"] == name
    if outcome == REFUSED:
        assert chain.exit_code() == 1
        assert chain.stderr.count("error: ") == 1, chain.stderr
        assert len(chain.frames) == 1
    else:
        chain.until_stderr("the chain goes on without it")
        answer = answer if outcome == BYPASSED else _initialize(chain)
        assert answer["result"]["agentInfo"]["name"] == "demo"
        _unharmed(rig, chain)
    assert says in chain.stderr
    assert f"`{name}`" in chain.stderr
    assert rig.leftovers(chain) == []


def test_a_program_that_never_answers_is_ended_with_the_chain(rig: Rig) -> None:
    """The program breaks no rule by reading on. Its requests are answered when the client has
    left."""
    chain = _chain(rig, SILENT, options=("-c", "drain=0.2", "-c", "grace=0.2"))
    asked = chain.start("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    chain.eof()
    error = chain.answer(asked)["error"]
    assert f"`{SILENT}`" in error["message"], error
    assert chain.exit_code() == 1
    assert rig.leftovers(chain) == []
