"""Transcripts: reading, comparing, writing anew."""

import json
from pathlib import Path

import pytest

from conductor.author import transcripts
from conductor.author.channel_adapter import ChannelAdapter
from conductor.author.subject import subjects
from conductor.author.transcripts import Delivery, Matcher
from conductor.errors import ComponentError, UsageError
from conductor.spec import catalog
from tests.places import HOSTILE

TEXT = b"""# A comment.
> pa
> pb
# within
< sa

> pc

> pd
< sd
> pe
< se
< ce
"""


def test_the_kinds_of_lines() -> None:
    assert transcripts.read(TEXT) == [
        Delivery(2, b"pa\npb\n", b"sa\n"),
        Delivery(7, b"pc\n", b""),
        Delivery(9, b"pd\n", b"sd\n"),
        Delivery(11, b"pe\n", b"se\nce\n"),
    ]


@pytest.mark.parametrize("text", [b"hello\n", b"< sa\n", b"> pa\n\n< sa\n", b">pa\n"])
def test_what_is_no_transcript(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"x\.txt:\d: neither"):
        transcripts.read(text, "x.txt")


def test_what_came_is_written_in_its_place() -> None:
    outboxes = [each.expected for each in transcripts.read(TEXT)]
    assert transcripts.updated(TEXT, outboxes) == TEXT
    new = transcripts.updated(TEXT, [b"s1\ns2\n", b"s3\n", b"", b"s4\n"])
    assert [each.expected for each in transcripts.read(new)] == [b"s1\ns2\n", b"s3\n", b"", b"s4\n"]
    assert [each.given for each in transcripts.read(new)] == [
        each.given for each in transcripts.read(TEXT)
    ]
    assert new.startswith(b"# A comment.\n> pa\n> pb\n# within\n< s1\n< s2\n\n> pc\n< s3\n\n")


def compare(expected: bytes, said: bytes, *, loose: bool) -> bool:
    """Whether they are taken for the same."""
    return Matcher(loose=loose).compare(Delivery(1, b"", expected), said)[0] is None


@pytest.mark.parametrize(
    ("expected", "said", "loosely"),
    [
        (b's{"a":1,"b":2}\n', b's{"b": 2, "a": 1}\n', True),
        (b's{"a":"A"}\n', b's{"a":"\\u0041"}\n', True),
        (b'{"a":1}\n', b'{ "a":1}\n', True),
        (b's{"id":1,"method":"x"}\n', b's{"id":"7","method":"x"}\n', True),
        (b's{"id":1,"result":1}\n', b's{"id":2,"result":1}\n', False),
        (b's{"a":1.10}\n', b's{"a":1.1}\n', False),
        (b's{"a":1}\n', b's{"a":"1"}\n', False),
        (b's{"a":1}\n', b'p{"a":1}\n', False),
        (b's{"a":1}\n', b"", False),
        (b"", b's{"a":1}\n', False),
        (b"s{broken\n", b"s{ broken\n", False),
        (b's{"id":1,"method":"x"}\n', b's{"id":1,"method":"y"}\n', False),
    ],
)
def test_values_or_bytes(expected: bytes, said: bytes, loosely: bool) -> None:
    assert compare(expected, expected, loose=False)
    assert compare(expected, expected, loose=True)
    assert not compare(expected, said, loose=False)
    assert compare(expected, said, loose=True) is loosely


def test_ids_of_its_own_are_followed() -> None:
    matcher = Matcher(loose=True)
    asked = Delivery(1, b"p{}\n", b'c{"id":1,"method":"clock"}\n')
    assert matcher.compare(asked, b'c{"id":"x9","method":"clock"}\n') == (None, asked.expected)
    answer = Delivery(3, b'c{"id":1,"result":{}}\n', b'c{"method":"$/cancel_request",'
                      b'"params":{"requestId":1}}\n')  # fmt: skip
    assert matcher.given(answer) == b'c{"id":"x9","result":{}}\n'
    said = b'c{"method":"$/cancel_request","params":{"requestId":"x9"}}\n'
    assert matcher.compare(answer, said)[0] is None
    unrelated = Delivery(5, b's{"id":1,"result":{}}\n', b"")
    assert matcher.given(unrelated) == unrelated.given


def test_a_line_that_is_nearly_json_is_no_message() -> None:
    matcher = Matcher(loose=True)
    matcher.compare(Delivery(1, b"", b's{"id":1,"method":"_x"}\n'), b's{"id":2,"method":"_x"}\n')
    answer = b's{"id":1,"result":NaN}\n'
    assert matcher.given(Delivery(2, answer, b"")) == answer


def test_a_difference_keeps_the_transcripts_ids() -> None:
    matcher = Matcher(loose=True)
    asked = Delivery(1, b"p{}\n", b'c{"id":1,"method":"clock"}\n')
    difference, outbox = matcher.compare(asked, b'c{"id":"x9","method":"clock","params":{}}\n')
    assert difference is not None
    assert outbox == b'c{"id":1,"method":"clock","params":{}}\n'


def test_a_program_on_the_channel_is_played(tmp_path: Path) -> None:
    script = HOSTILE / "careless_proxy.py"
    text = b'> p{"id":1,"method":"_x"}\n> s{"id":1,"result":1.10}\n< s{"id":1,"method":"_x"}\n'
    text += b'< p{"id":1,"result":1.10}\n'
    del tmp_path
    spec = catalog.resolve(f"python {script} echo_c,dialect=channel")
    with subjects(spec) as make:
        played = transcripts.play(make, text, "t.txt", loose=False)
        assert (played.mismatches, played.failure) == ([], None)
    with subjects(catalog.resolve(f"python {script} nothing,dialect=channel")) as make:
        failure = transcripts.play(make, text, "t.txt", loose=False).failure
        assert failure is not None
        assert "t.txt:1: component `careless_proxy`" in failure.text
        assert "has ended" in failure.text


@pytest.mark.parametrize(
    "code",
    [
        "import os, time; os.close(1); time.sleep(1000)",
        "import time; time.sleep(1000)",
        "import os\nwhile True: os.write(1, b'p{}\\n' * 1000)",
        "import os\nwhile True: os.write(1, b'x' * 65536)",
        "import subprocess; subprocess.Popen(['sleep', '10'])",
    ],
    ids=["closes its output", "reads nothing", "floods", "an endless line", "leaves a child"],
)
def test_a_program_that_hangs_ends_its_transcript(tmp_path: Path, code: str) -> None:
    script = tmp_path / "odd.py"
    script.write_text(code)
    text = b'> p{"id":1,"method":"_x","params":"' + b"x" * 300_000 + b'"}\n'
    spec = catalog.resolve(f"python {script},dialect=channel")
    with subjects(spec, patience=1.0) as make:
        assert transcripts.play(make, text, "t.txt", loose=False).failure is not None


def test_a_program_may_take_seconds_to_end(tmp_path: Path) -> None:
    done = tmp_path / "done"
    script = tmp_path / "slow_end.py"
    script.write_text(
        "import pathlib, sys, time\n"
        "sys.stdin.read()\n"
        "time.sleep(2.2)  # as on a loaded machine\n"
        f"pathlib.Path({str(done)!r}).touch()\n"
    )
    with subjects(catalog.resolve(f"python {script},dialect=acp")) as make:
        make().close()
    assert done.exists()


def test_what_has_no_deliveries() -> None:
    with pytest.raises(UsageError, match="no deliveries to play"):
        transcripts.require_channel(catalog.resolve("demo"))


def test_a_guest_that_fails_is_named(tmp_path: Path) -> None:
    import wasmtime

    wat = (HOSTILE / "trap_deliver.wat").read_text("utf-8")
    path = tmp_path / "trap.wasm"
    path.write_bytes(bytes(wasmtime.wat2wasm(wat)))
    with subjects(catalog.resolve(str(path))) as make:
        failure = transcripts.play(make, b"> p{}\n", "t.txt", loose=False).failure
    assert isinstance(failure, ComponentError)
    assert failure.text.startswith("t.txt:1: trap ")


def enveloped(lines: bytes) -> bytes:
    """A proxy of the dialect `acp` that passes everything on, and asks for the time once."""
    said = []
    for line in lines.splitlines():
        frame = json.loads(line)
        method, params = frame.get("method"), frame.get("params")
        if method == "proxy/successor":
            frame |= params
        elif method == "_conductor/clock":
            raise AssertionError(frame)
        elif method is not None:
            frame |= {"method": "proxy/successor", "params": {"method": method, "params": params}}
        if method == "$/cancel_request":
            frame = {"method": method, "params": {"requestId": "own"}}
        if method == "proxy/initialize":
            said.append({"id": "own", "method": "_conductor/clock"})
            frame["params"]["method"] = "initialize"
        if "params" not in frame or frame["params"] is not None:
            said.append(frame)
    return b"".join(json.dumps(one).encode() + b"\n" for one in said)


@pytest.mark.parametrize(
    ("params", "told"),
    [(b'{"config":{}}', False), (b'{"config":{"n":1.10}}', True), (b'{"kept":{"a":1}}', True)],
)
def test_a_wasi_command_is_told_what_there_is_to_tell(params: bytes, told: bool) -> None:
    given: list[bytes] = []

    def deliver(lines: bytes) -> bytes:
        given.append(lines)
        return b""

    configure = b'c{"jsonrpc":"2.0","method":"configure","params":%b}\n' % params
    ChannelAdapter(deliver).exchange(configure)
    line = b'{"jsonrpc":"2.0","method":"_conductor/configure","params":%b}\n' % params
    assert given == ([line] if told else [])


def test_an_answer_stays_as_it_is_written_but_for_its_id() -> None:
    """A component chooses ids of its own requests; whoever answers them has no others to go by."""
    text = b'> p1\n< c{"id":1,"method":"m"}\n\n> c{"id":1,"result":[1.10,1e400,"\\ud83d"]}\n'
    matcher = Matcher(loose=True)
    first, second = transcripts.read(text)
    assert matcher.compare(first, b'c{"id":"x","method":"m"}\n')[0] is None
    assert matcher.given(second) == b'c{"id":"x","result":[1.10,1e400,"\\ud83d"]}\n'


def test_a_wasi_command_is_shown_on_the_channel() -> None:
    adapter = ChannelAdapter(enveloped)
    assert adapter.exchange(b'c{"method":"configure","params":{"config":{}}}\n') == b""
    said = adapter.exchange(b'p{"id":7,"method":"initialize","params":{"n":1}}\n')
    clock, passed = said.splitlines()
    assert json.loads(clock[1:]) == {"id": "own", "method": "clock"}
    assert (clock[:1], passed[:1]) == (b"c", b"s")
    assert json.loads(passed[1:]) | {"jsonrpc": "2.0"} == {
        "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"n": 1},
    }  # fmt: skip
    (answer,) = adapter.exchange(b's{"id":7,"result":{"r":1}}\n').splitlines()
    assert (answer[:1], json.loads(answer[1:])["id"]) == (b"p", 7)
    (up,) = adapter.exchange(b's{"method":"session/update","params":{}}\n').splitlines()
    assert (up[:1], json.loads(up[1:])["method"]) == (b"p", "session/update")
    adapter.exchange(b'p{"id":8,"method":"x","params":{}}\n')
    asked = b'p{"method":"$/cancel_request","params":{"requestId":8}}\n'
    (cancel,) = adapter.exchange(asked).splitlines()
    assert cancel[:1] == b"c"
    assert adapter.exchange(b'p{"method":"$/cancel_request","params":{"requestId":9}}\n') == b""
    with pytest.raises(ComponentError, match="no message that passes an envelope"):
        adapter.exchange(b"p[1]\n")
