"""The checks of the libraries of all languages: the shared transcripts, and some more."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import wasm_host
from conductor.author import transcripts
from tests.places import ROOT

SDK: Final = ROOT / "guest_sdk"
EXAMPLES: Final = ("datetime", "shout")
TRANSCRIPTS: Final = sorted(
    (name, path) for name in EXAMPLES for path in (SDK / "transcripts" / name).glob("*.txt")
)
PROBE: Final = Path(__file__).parent / "probe.txt"
"""The transcript of the probe: a proxy that is written in every language for these tests alone."""
LIMITS: Final = wasm_host.Limits(cpu_ms=60_000)
"""Limits for a busy machine: time is not tested here."""


def title(value: object) -> str:
    """How a transcript is called in a test's name."""
    return value.stem if isinstance(value, Path) else str(value)


def readme(folder: Path, language: str) -> str:
    """The one example in a language that the README of a library shows."""
    text = (folder / "README.md").read_text("utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def missing(program: str) -> str | None:
    """Why a language cannot be tested here; None if its tool is there."""
    return None if shutil.which(program) else f"`{program}` is not on PATH"


def play(
    exchange: Callable[[bytes], bytes],
    path: Path,
    *,
    shown: Callable[[bytes], bytes] | None = None,
) -> None:
    """Plays a transcript; every outbox is the one expected, byte for byte.

    With `shown`, lines are compared as that makes them, and ids of own requests may differ.
    """
    matcher = transcripts.Matcher(loose=shown is not None)
    deliveries = transcripts.read(path.read_bytes(), path.name)
    assert deliveries
    for read in deliveries:
        delivery = read
        if shown is not None:
            delivery = transcripts.Delivery(read.line, shown(read.given), shown(read.expected))
        mismatch, _ = matcher.compare(delivery, exchange(matcher.given(delivery)))
        assert mismatch is None, mismatch


def load(module: Path) -> wasm_host.Module:
    """A module built by a test."""
    return wasm_host.load(module, limits=LIMITS)


def play_guest(module: wasm_host.Module, path: Path) -> None:
    """Plays a transcript against a fresh guest."""
    guest = module.instantiate(path.stem)
    assert guest.start(b"") == b""
    play(guest.deliver, path)
    guest.close()


def answering(guest: wasm_host.Guest, given: str, expected: str) -> None:
    """Makes one delivery, lines on both sides; blank lines and margins do not count."""
    lines = [line.strip() for line in given.strip().splitlines()]
    wanted = [line.strip() for line in expected.strip().splitlines()]
    said = guest.deliver("".join(f"{line}\n" for line in lines).encode()).decode()
    assert said.splitlines() == wanted


def check_french(exchange: Callable[[bytes], bytes]) -> None:
    """Checks the example of every README: one block more in a prompt, and nothing else."""
    prompt = b'{"id":1,"method":"session/prompt","params":{"prompt":["x"],"_meta":{}}}\n'
    block = b'[{"type":"text","text":"Answer in French."},'
    given = b's{"jsonrpc":"2.0","method":"_a/b","params":{"n":1.10}}\np' + prompt
    assert exchange(given) == (
        b'p{"jsonrpc":"2.0","method":"_a/b","params":{"n":1.10}}\ns' + prompt.replace(b"[", block)
    )


def check_memory(exchange: Callable[[bytes], bytes], prompts: int = 400) -> None:
    """Prompts of 400 KB through `datetime`: their memory is given back."""
    told = b'{"result":{"date":"d","time":"t"},"jsonrpc":"2.0","id":%d}\n'
    text = b"x" * 400_000
    for number in range(1, prompts + 1):
        prompt = b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"prompt":["%s"]}}\n'
        line = prompt % (number, text)
        later = b'p{"jsonrpc":"2.0","method":"_later"}\n'
        asked = exchange(b"p" + line + later)
        assert asked == b'c{"jsonrpc":"2.0","id":%d,"method":"clock"}\n' % number
        said = exchange(b"c" + told % number)
        block = rb'[{"type":"text","text":"<current-date date=\"d\" time=\"t\"/>"},'
        assert said == b"s" + line.replace(b"[", block, 1) + b"s" + later[1:]


HALVES: Final = (
    r"half \ud83d",
    r"\uDE00half",
    r"half\ud83d\u0041",
    r"half\ud83d\ud83d\ude00",
    r"half\ude00\ud83d",
    r"half\ud83d\\ude00",
    r"\ud83d\"half\n",
    r"half \udbff \ufffd",
    "half \\udbff \ufffd",
)
"""Texts of JSON that hold half an emoji."""


def check_half(exchange: Callable[[bytes], bytes], *, carried: bool = False) -> None:
    """Half an emoji is text: `shout` reads it, and writes it as it reads it: U+FFFD, unless the
    language's texts can hold it. What the agent says in capitals passes as it was written."""
    for half in HALVES:
        line = (
            '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s\\ud83d","update":'
            f'{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{half}"}}}}}}}}'
        )
        loud = line.replace("half", "HALF").replace(r"\\ude00", r"\\UDE00")
        assert exchange(f"s{loud}\n".encode()).decode() == f"p{loud}\n"
        wanted = json.loads(f'"{half}"').upper()
        if not carried:
            wanted = re.sub("[\ud800-\udfff]", "\ufffd", wanted)
        said = exchange(f"s{line}\n".encode()).decode()
        assert said[0] == "p"
        assert json.loads(said[1:])["params"]["update"]["content"]["text"] == wanted, half


FAULT: Final = b'{"jsonrpc":"2.0","id":1,"method":"_probe/fault"}\n'
"""The message at which the probe of every language fails."""


def check_fault(guest: wasm_host.Guest, line: bytes) -> None:
    """A panic ends a guest, and says why."""
    with pytest.raises(wasm_host.GuestError) as caught:
        guest.deliver(line)
    assert guest.dead
    assert "wrong on purpose" in guest.stderr
    assert "wrong on purpose" in caught.value.detail


BLOCK: Final = '{"type":"text","text":"Answer in French."}'
ODD: Final = (
    # A line that cannot be read, or is no call of the method, passes unchanged.
    r'{"id":1,"\u00c":1,"method":"session/prompt","params":{"prompt":[]}}',
    r'{"id":1,"method":"session/prompt","params":{"a\x":1,"prompt":[]}}',
    '{"id":1,"method":"session/prompt","params":{"prompt":[]}',
    '{"id":1,"method":7,"params":{"prompt":[]}}',
    '{"id":1,"method":"session/prompt ","params":{"prompt":[]}}',
    '{"method":"session/prompt","id":1,"method":"_x","params":{"prompt":[]}}',
    r'{"id":1,"method":"session/prompt","m\u0065thod":"_x","params":{"prompt":[]}}',
    '{"id":1,"method":"session/prompt","params":{"prompt":[]},"params":{"prompt":1}}',
    '{"id":1,"method":"session/prompt","params":{"prompt":[],"pr\\u006fmpt":"x"}}',
    '[{"id":1,"method":"session/prompt","params":{"prompt":[]}}]',
    "[]",
    "1",
    '"x"',
    # Of repeated members the last one counts, however it is spelt; all else stays as it is written.
    '{"method":"_x","id":1,"method":"session/prompt","params":{"prompt":[<>]}}',
    r'{"m\u0065thod":"session\/prompt","id":1,"params":{"prompt":1,"prompt":[<> ]}}',
    '{"params":7, "id" : "x" ,"params" : {"prompt":[ <>,1.10] },"method":"session/prompt"}',
    r'{"id":-5,"method":"session/prompt","params":{"prompt":[<>,"\ude00",1e400,-0,1E+2]},"":{}}',
    '{"id":1,"method":"session/prompt","params":{"prompt":[<>,{"é€😀\u2028":[[[]]]}],"":""}}\t ',
)
"""Lines for the example of every README; `<>` is where its block comes to stand."""


def check_odd(exchange: Callable[[bytes], bytes]) -> None:
    """JSON as nobody writes it is read as it is meant, and never written anew."""
    for line in ODD:
        given = line.replace("[ <>,", "[ ").replace("<>,", "").replace("<>", "")
        expected = line.replace("[ <>,", f"[{BLOCK}, ").replace("<>", BLOCK)
        assert exchange(f"p{given}\n".encode()).decode() == f"s{expected}\n"
