"""'Done means': hostile modules behind the real command; each gets one clear error, alone."""

from typing import Final

import pytest

from tests.harness.process.client import Json
from tests.harness.process.rig import Chain, Rig

ISOLATIONS: Final = ("process", "inline", "separate")


HARM: Final = {
    "loop_deliver": "cpu_ms",
    "trap_deliver": "unreachable",
    "wild_outbox": "beyond its memory",
    "import_host": "env.system",
}
"""A module for each kind of failure, and the words of its error; all modules:
`tests/e2e/test_hostile_guests.py`."""


def _initialize(chain: Chain) -> Json:
    answer = chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    assert "error" in answer, f"{answer}{chain.story()}"
    error: Json = answer["error"]
    return error


@pytest.mark.proves("exceeding a limit ends that guest")
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("name", HARM)
def test_a_hostile_module_is_named_and_ends_the_chain(rig: Rig, name: str, isolation: str) -> None:
    component = f"{rig.hostile(name)},only=full,limit.cpu_ms=200"
    chain = rig.agent(
        "passthrough",
        component,
        "passthrough",
        rig.demo(),
        options=("-c", f"isolation={isolation}"),
    )
    error = _initialize(chain)
    assert f"`{name}`" in error["message"]
    assert f"{name}.wasm" in error["message"]
    assert HARM[name] in error["message"]
    assert "\nhint: " in error["message"]
    assert error["data"]["component"] == name
    assert chain.exit_code() == 1
    assert chain.stderr.count("error: ") == 1, chain.stderr
    assert HARM[name] in chain.stderr
    assert "\nhint: " in chain.stderr
    assert rig.leftovers(chain) == []


#: Passes everything on, until a line holds `poison`.
FUSED: Final = """
(module
  (memory (export "memory") 4)
  (data (i32.const 0) "poison")
  (data (i32.const 32) "it was poisoned\\nby a prompt")
  (func (export "channel_fault") (result i64) (i64.const 0x200000001b))
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func $poisoned (param $at i32) (result i32) (local $i i32)
    (loop $next
      (if (i32.ne (i32.load8_u (i32.add (local.get $at) (local.get $i)))
                  (i32.load8_u (local.get $i))) (then (return (i32.const 0))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (i32.const 6))))
    (i32.const 1))
  (func (export "channel_deliver") (param $from i32) (param $len i32) (result i64)
    (local $at i32) (local $end i32) (local $fresh i32) (local $keep i32) (local $to i32)
    (local $byte i32)
    (local.set $at (local.get $from)) (local.set $to (local.get $from))
    (local.set $end (i32.add (local.get $from) (local.get $len)))
    (local.set $fresh (i32.const 1))
    (block $done (loop $each
      (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
      (local.set $byte (i32.load8_u (local.get $at)))
      (if (call $poisoned (local.get $at)) (then HARM))
      (if (local.get $fresh) (then
        (local.set $keep (i32.ne (local.get $byte) (i32.const 99)))
        (local.set $byte (i32.sub (i32.const 227) (local.get $byte)))))
      (if (local.get $keep) (then
        (i32.store8 (local.get $to) (local.get $byte))
        (local.set $to (i32.add (local.get $to) (i32.const 1)))))
      (local.set $fresh (i32.eq (i32.load8_u (local.get $at)) (i32.const 10)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $each)))
    (i64.or (i64.shl (i64.extend_i32_u (local.get $from)) (i64.const 32))
            (i64.extend_i32_u (i32.sub (local.get $to) (local.get $from))))))
"""

LATER: Final = {
    "trap": ("unreachable", "unreachable"),
    "loop": ("(loop $forever (br $forever))", "cpu_ms"),
    "wild": ("(return (i64.const 0x7fffffff00000010))", "beyond its memory"),
    "garbage": ("(return (i64.const 0x0000000000000006))", "without a newline: 'poison'"),
}
"""The harm to the guest in a turn, and the words of the error."""


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("harm", LATER)
def test_a_guest_that_fails_mid_turn(rig: Rig, harm: str, isolation: str) -> None:
    """Open requests are answered with the cause; what others said before is not lost."""
    code, says = LATER[harm]
    module = rig.module(harm, FUSED.replace("HARM", code))
    chain = rig.agent(
        rig.x("X"), "passthrough", f"{module},limit.cpu_ms=200,on_failure=fail", rig.demo(),
        options=("-c", f"isolation={isolation}"),
    )  # fmt: skip
    session, other = chain.begin(), chain.new_session()
    hang = chain.start_prompt(other, "/hang")
    assert chain.prompt(session, "/echo before") == "before"
    turn = chain.start_prompt(session, "/echo poison")
    for asked in (turn, hang):
        error = chain.answer(asked)["error"]
        assert f"`{harm}`" in error["message"]
        assert says in error["message"]
        assert "\nhint: " in error["message"]
    assert chain.exit_code() == 1
    assert chain.texts(session) == ["before"]
    assert "; down `" not in chain.stderr, chain.story()
    assert chain.stderr.count("error: ") == 1, chain.stderr
    assert rig.leftovers(chain) == []


_DEAF: Final = "(if (global.get $deaf) (then (return (i64.const 0))))"
SILENT: Final = (
    FUSED.replace("HARM", "unreachable")
    .replace(
        "(module",
        '(module (global $deaf (mut i32) (i32.const 0)) (data (i32.const 16) "\\22instanc")',
        1,
    )
    .replace(
        "(if (call $poisoned",
        "(if (i64.eq (i64.load (local.get $at)) (i64.load (i32.const 16)))\n"
        "        (then (global.set $deaf (i32.const 1))))\n      (if (call $poisoned",
    )
    .replace("(local.set $at (local.get $from))", f"{_DEAF} (local.set $at (local.get $from))")
)
"""The guest fails by a prompt. `configure` tells it of a restart: then it says nothing."""


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("choice", ["restart", "restart+bypass"])
def test_a_guest_that_is_started_again_and_is_silent_holds_nobody(
    rig: Rig, choice: str, isolation: str
) -> None:
    module = f"{rig.module('mute', SILENT)},only=full,on_failure={choice},timeout=500ms"
    chain = rig.agent("passthrough", module, rig.demo(), options=("-c", f"isolation={isolation}"))
    session = chain.begin()
    chain.start_prompt(session, "/echo poison")
    chain.until_stderr("it is started again")
    asked = chain.start_prompt(session, "/echo on")
    if choice == "restart":
        assert "`mute`" in chain.answer(asked)["error"]["message"]
        assert chain.exit_code() == 1
    else:
        assert chain.answer(asked)["result"] == {"stopReason": "end_turn"}
        assert chain.texts(session)[-1] == "on"
        assert chain.finish() == 0
    assert "`mute` (" in chain.stderr
    assert "did not answer `initialize` within 0.5 s" in chain.stderr
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_what_the_agent_said_before_a_guest_failed_arrives(rig: Rig, isolation: str) -> None:
    """The guest fails amid a stream nobody reads: what has passed it comes, without a gap."""
    module = rig.module("trap", FUSED.replace("HARM", "unreachable"))
    chain = rig.agent("passthrough", f"{module},on_failure=fail", rig.demo(log=False),
                      options=("-c", f"isolation={isolation}"))  # fmt: skip
    session, other = chain.begin(), chain.new_session()
    chain.reading = False
    stream = chain.start_prompt(session, "/stream 400 10000")
    chain.start_prompt(other, "poison")
    chain.until_stderr("error: ")
    chain.reading = True
    assert chain.exit_code() == 1
    numbers = [int(text[:8]) for text in chain.texts(session)]
    assert numbers == list(range(len(numbers)))
    (answer,) = chain.answers(stream)
    assert "error" in answer or len(numbers) == 400


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_ungranted_service_is_refused_by_name_and_life_goes_on(rig: Rig, isolation: str) -> None:
    """`datetime` copied under another name has no grant: prompts pass as they are."""
    bundled = rig.folder / "unknown.wasm"
    bundled.write_bytes(rig.bundled("datetime").read_bytes())
    options = ("-c", f"isolation={isolation}")
    chain = rig.agent(str(bundled), rig.demo(), options=options)
    assert chain.prompt(chain.begin(), "hi") == "hi"
    assert chain.finish() == 0
    granted = rig.agent(f"{bundled},allow=clock", rig.demo(), options=options)
    assert granted.prompt(granted.begin(), "hi").startswith("<current-date ")
