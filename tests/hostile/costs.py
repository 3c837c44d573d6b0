"""Guests that cost: a generator of modules that pass on what they get and do something dear.

What an attacker does is a composition: a line (its kind, bytes, values, depth), how many of them a
delivery returns, how long it computes, from which delivery on and for how many. Several in one
chain are colluders. `tests/e2e/test_costs.py` runs a selection, `python -m benchmarks.chaos
--costs` draws new ones for as long as it is to run.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

IN: Final = 1 << 17
"""The place to which lines are delivered; the parts of the guest's own lines lie below."""


@dataclass(frozen=True)
class Line:
    """The parts of a line: a beginning, a unit so many times, an end."""

    head: bytes
    unit: bytes = b""
    tail: bytes = b""
    count: int = 0
    number: int = 0
    """The place of eight digits that are counted up from line to line; 0: there are none."""

    @property
    def size(self) -> int:
        """Bytes, the newline included."""
        return len(self.head) + len(self.unit) * self.count + len(self.tail) + 1


@dataclass(frozen=True)
class Attack:
    """The acts of one guest besides passing everything on."""

    name: str
    line: Line | None = None
    lines: int = 1
    """The number of lines in one delivery."""
    start: int = 0
    """The delivery at which the lines begin."""
    times: int = 1 << 30
    """The number of deliveries that have the lines."""
    spin: int = 0
    """Turns of an empty loop a delivery; a few hundred million are a second."""
    own: bool = False
    """Only in deliveries of the guest's own: answers of the conductor to the guest."""
    options: str = "only=full"
    """The options of the guest on the command line."""


def _request(side: bytes, method: bytes, params: bytes = b"") -> bytes:
    body = b',"params":' + params if params else b""
    return side + b'{"jsonrpc":"2.0","id":1,"method":"' + method + b'"' + body


def _notification(side: bytes, method: bytes) -> bytes:
    return side + b'{"jsonrpc":"2.0","method":"' + method + b'","params":'


_CHUNK: Final = (
    _notification(b"p", b"session/update")
    + b'{"sessionId":"costs","update":{"sessionUpdate":"agent_message_chunk","content":'
    b'{"type":"text","text":"'
)

KINDS: Final[dict[str, Line]] = {
    "clock": Line(_request(b"c", b"clock"), tail=b"}"),
    "random": Line(_request(b"c", b"random", b'{"bytes":4096}'), tail=b"}"),
    "refused": Line(_request(b"c", b"no-such-service"), tail=b"}"),
    "timer": Line(_request(b"c", b"timer/start", b'{"afterMs":10,"everyMs":10}'), tail=b"}"),
    "ping": Line(_request(b"s", b"$/ping"), tail=b"}"),
    "log": Line(_notification(b"c", b"log") + b'{"message":"', b"words ", b'"}}'),
    "log-values": Line(_notification(b"c", b"log") + b'{"data":[', b"{},", b"1]}}"),
    "metric": Line(_notification(b"c", b"metric") + b'{"name":"n","labels":{', b'"a":"b",',
                   b'"a":"b"}}}'),
    "update": Line(_CHUNK, b"text ", b'"}}}}'),
    "escapes": Line(_CHUNK, rb"\ud800", b'"}}}}'),
    "numbers": Line(_notification(b"s", b"_costs/x") + b"[", b"11,", b"1]}"),
    "objects": Line(_notification(b"p", b"_costs/x") + b"[", b"{},", b"1]}"),
    "nested": Line(_notification(b"s", b"_costs/x"), b"[", b"1}"),
    "members": Line(_notification(b"p", b"_costs/x") + b"{", b'"a":1,', b'"a":1}}'),
    "long-id": Line(b's{"jsonrpc":"2.0","method":"_costs/x","id":"', b"x", b'"}'),
    "long-method": Line(b's{"jsonrpc":"2.0","method":"_', b"m", b'"}'),
    "array": Line(b"s[", b'{"jsonrpc":"2.0","method":"_costs/x"},',
                  b'{"jsonrpc":"2.0","method":"_costs/x"}]'),
    "open": Line(b's{"jsonrpc":"2.0","id":"00000000","method":"_costs/x"}', number=24),
    "junk": Line(b"s", b"{", b""),
}  # fmt: skip
"""Lines by the thing that is dear about them; `count` is chosen by the composer."""


def module(attack: Attack) -> str:
    """The guest as WebAssembly text."""
    line = attack.line or Line(b"")
    head, unit, tail = line.head, line.unit, line.tail + b"\n"
    at_unit = len(head)
    at_tail = at_unit + len(unit)
    assert at_tail + len(tail) <= IN
    lines = attack.lines if attack.line is not None else 0
    room = lines * line.size
    return f"""(module
  (memory (export "memory") {(IN >> 16) + 1})
  (data (i32.const 0) "{_text(head + unit + tail)}")
  (global $delivery (mut i32) (i32.const 0))
  (global $line (mut i32) (i32.const 0))
  (func $room (param $end i32)
    (local $pages i32)
    (local.set $pages (i32.sub
      (i32.shr_u (i32.add (local.get $end) (i32.const 65535)) (i32.const 16)) (memory.size)))
    (if (i32.gt_s (local.get $pages) (i32.const 0))
      (then (if (i32.eq (memory.grow (local.get $pages)) (i32.const -1)) (then unreachable)))))
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param $size i32) (result i32)
    (call $room (i32.add (i32.const {IN + 64 + room}) (i32.shl (local.get $size) (i32.const 1))))
    (i32.const {IN}))
  (func (export "channel_deliver") (param $at i32) (param $size i32) (result i64)
    (local $end i32) (local $next i32) (local $side i32) (local $out i32) (local $o i32)
    (local $n i32) (local $k i32) (local $own i32)
    (local.set $end (i32.add (local.get $at) (local.get $size)))
    (local.set $out (local.get $end))
    (local.set $o (local.get $out))
    (block $passed (loop $pass
      (br_if $passed (i32.ge_u (local.get $at) (local.get $end)))
      (local.set $next (local.get $at))
      (loop $seek
        (local.set $next (i32.add (local.get $next) (i32.const 1)))
        (br_if $seek (i32.ne (i32.load8_u (local.get $next)) (i32.const 10))))
      (local.set $next (i32.add (local.get $next) (i32.const 1)))
      (local.set $side (i32.load8_u (local.get $at)))
      (if (i32.eq (local.get $side) (i32.const {ord("c")})) (then
        (local.set $own (i32.const 1))))
      (if (i32.ne (local.get $side) (i32.const {ord("c")})) (then
        (i32.store8 (local.get $o) (select (i32.const {ord("s")}) (i32.const {ord("p")})
          (i32.eq (local.get $side) (i32.const {ord("p")}))))
        (memory.copy (i32.add (local.get $o) (i32.const 1))
          (i32.add (local.get $at) (i32.const 1))
          (i32.sub (i32.sub (local.get $next) (local.get $at)) (i32.const 1)))
        (local.set $o (i32.add (local.get $o) (i32.sub (local.get $next) (local.get $at))))))
      (local.set $at (local.get $next))
      (br $pass)))
    (global.set $delivery (i32.add (global.get $delivery) (i32.const 1)))
    (if (i32.and (i32.or (local.get $own) (i32.const {int(not attack.own)}))
          (i32.lt_u (i32.sub (global.get $delivery) (i32.const {attack.start + 1}))
            (i32.const {attack.times}))) (then
      (local.set $n (i32.const {lines}))
      (block $written (loop $write
        (br_if $written (i32.eqz (local.get $n)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (memory.copy (local.get $o) (i32.const 0) (i32.const {len(head)}))
        (if (i32.const {line.number}) (then
          (global.set $line (i32.add (global.get $line) (i32.const 1)))
          (local.set $next (global.get $line))
          (local.set $k (i32.const 8))
          (loop $digit
            (local.set $k (i32.sub (local.get $k) (i32.const 1)))
            (i32.store8 (i32.add (i32.add (local.get $o) (i32.const {line.number})) (local.get $k))
              (i32.add (i32.const 48) (i32.rem_u (local.get $next) (i32.const 10))))
            (local.set $next (i32.div_u (local.get $next) (i32.const 10)))
            (br_if $digit (local.get $k)))))
        (local.set $o (i32.add (local.get $o) (i32.const {len(head)})))
        (local.set $k (i32.const {line.count}))
        (block $filled (loop $fill
          (br_if $filled (i32.eqz (local.get $k)))
          (local.set $k (i32.sub (local.get $k) (i32.const 1)))
          (memory.copy (local.get $o) (i32.const {at_unit}) (i32.const {len(unit)}))
          (local.set $o (i32.add (local.get $o) (i32.const {len(unit)})))
          (br $fill)))
        (memory.copy (local.get $o) (i32.const {at_tail}) (i32.const {len(tail)}))
        (local.set $o (i32.add (local.get $o) (i32.const {len(tail)})))
        (br $write)))
      (local.set $k (i32.const {attack.spin}))
      (block $spun (loop $spin
        (br_if $spun (i32.eqz (local.get $k)))
        (local.set $k (i32.sub (local.get $k) (i32.const 1)))
        (br $spin)))))
    (i64.or (i64.shl (i64.extend_i32_u (local.get $out)) (i64.const 32))
      (i64.extend_i32_u (i32.sub (local.get $o) (local.get $out))))))
"""


def _text(data: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in data)


SERVICES: Final = ("clock", "random", "timer")
_SIZES: Final = (0, 1, 1000, 30_000, 1_000_000, 5_000_000, 15_000_000)
_LINES: Final = (1, 1, 2, 30, 1000, 20_000, 100_000)
_SPINS: Final = (0, 0, 1_000_000, 100_000_000)
_MOST: Final = 100_000_000
_SETS: Final = ("trusted", "full", "filter", "context")


def draw(rng: Random) -> list[Attack]:
    """Attackers, one to three, drawn."""
    return [_one(rng, f"evil{number}") for number in range(rng.choice((1, 1, 2, 3)))]


def _one(rng: Random, name: str) -> Attack:
    kind = rng.choice(list(KINDS))
    line = KINDS[kind]
    if line.unit:
        line = replace(line, count=rng.choice(_SIZES) // len(line.unit))
    lines = rng.choice([n for n in _LINES if n * line.size <= _MOST])
    options = f"only={rng.choice(_SETS)}+{'+'.join(SERVICES)},memory=256MiB"
    spin, times = rng.choice(_SPINS), rng.choice((1, 20, 1 << 30))
    own = rng.random() < 0.5
    return Attack(name, line, lines, rng.choice((0, 5)), times, spin, own, options)
