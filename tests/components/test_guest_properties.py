"""Properties of the bundled sandboxed proxies, over generated and damaged JSON."""

import json
from typing import NoReturn

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import wasm_host
from tests.components.guests import block, clock_answer, clock_request, load
from tests.components.json_texts import member, spaces, strings, values


@pytest.fixture(scope="module")
def datetime() -> wasm_host.Module:
    return load("datetime")


@pytest.fixture(scope="module")
def passthrough() -> wasm_host.Module:
    return load("passthrough")


#: A line's content: anything but a newline, since framing is the host's business.
frames = st.binary(min_size=1, max_size=300).map(lambda data: data.replace(b"\n", b"n"))
FLIP = {b"p": b"s", b"s": b"p"}


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def takes_block(line: bytes) -> bool:
    """Whether a line is, by the standard library's parser, a prompt that takes a block."""
    try:
        message = json.loads(line.decode(), parse_constant=_no_constant)
    except ValueError:
        return False
    if not isinstance(message, dict) or message.get("method") != "session/prompt":
        return False
    params = message.get("params")
    is_prompt = isinstance(params, dict) and isinstance(params.get("prompt"), list)
    return is_prompt and "id" in message


@given(st.lists(st.tuples(st.sampled_from([b"p", b"s", b"c"]), frames), max_size=12))
def test_passthrough_flips_every_line(
    passthrough: wasm_host.Module, lines: list[tuple[bytes, bytes]]
) -> None:
    guest = passthrough.instantiate("passthrough")
    expected = b"".join(FLIP[side] + frame + b"\n" for side, frame in lines if side in FLIP)
    assert guest.deliver(b"".join(side + frame + b"\n" for side, frame in lines)) == expected


@pytest.mark.parametrize("name", ["datetime", "passthrough"])
def test_side_bytes_alone_are_dropped(name: str) -> None:
    guest = load(name).instantiate(name)
    assert guest.deliver(b"p\ns1\n\np\np2\nc\n") == b"p1\ns2\n"
    assert guest.deliver(b"p\n") == guest.deliver(b"") == b""


@pytest.mark.parametrize("name", ["datetime", "passthrough"])
@pytest.mark.parametrize("length", [*range(1, 130), 65_530, 65_536, 1_000_003])
def test_every_length_arrives_whole(name: str, length: int) -> None:
    guest = load(name).instantiate(name)
    frame = bytes(97 + index % 26 for index in range(min(length, 26))) * (length // 26 + 1)
    frame = frame[:length] + b"\n"
    for side in (b"p", b"s"):
        assert guest.deliver((side + frame) * 3) == (FLIP[side] + frame) * 3


@given(st.lists(st.tuples(st.sampled_from([b"p", b"s"]), st.one_of(frames, values)), max_size=8))
def test_datetime_leaves_every_other_line_alone(
    datetime: wasm_host.Module, lines: list[tuple[bytes, bytes | str]]
) -> None:
    guest = datetime.instantiate("datetime")
    encoded = [(side, x.encode() if isinstance(x, str) else x) for side, x in lines]
    expected = b"".join(FLIP[side] + frame + b"\n" for side, frame in encoded)
    assert guest.deliver(b"".join(side + frame + b"\n" for side, frame in encoded)) == expected


@st.composite
def prompts(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A prompt request as text, cut where the block belongs, without its comma."""
    method = draw(
        st.sampled_from(["session/prompt", "session\\/prompt", "\\u0073ession\\u002Fprompt"])
    )
    others = st.lists(
        st.tuples(strings.filter(lambda name: json.loads(name) != "prompt"), values), max_size=3
    )
    decoys = st.lists(st.tuples(st.just('"prompt"'), values), max_size=1)

    def members(pairs: list[tuple[str, str]]) -> list[str]:
        return [draw(member(*pair)) for pair in pairs]

    elements = draw(st.lists(values, max_size=3))
    mark = "\0"  # cannot be in a JSON text, so it finds the bracket again
    array = f"[{mark}" + (",".join(elements) if elements else draw(spaces)) + "]"
    name = draw(st.sampled_from(['"prompt"', '"pr\\u006fmpt"']))
    inside = [*members(draw(others) + draw(decoys)), *members([(name, array)])]
    params = "{" + ",".join([*inside, *members(draw(others))]) + "}"
    top = [
        ('"jsonrpc"', '"2.0"'),
        ('"id"', draw(st.one_of(strings, st.sampled_from(["1", "null", "9223372036854775807"])))),
        ('"method"', f'"{method}"'),
        ('"params"', params),
        ('"_meta"', draw(values)),
    ]
    before = members(draw(st.sampled_from([[], [('"params"', "7")], [('"method"', '"x"')]])))
    text = "{" + ",".join([*before, *members(draw(st.permutations(top)))]) + "}" + draw(spaces)
    head, _, tail = text.encode().partition(mark.encode())
    return head, tail


@given(prompts())
def test_datetime_splices_its_block_and_changes_nothing_else(
    datetime: wasm_host.Module, prompt: tuple[bytes, bytes]
) -> None:
    head, tail = prompt
    assert takes_block(head + tail)
    guest = datetime.instantiate("datetime")
    assert guest.deliver(b"p" + head + tail + b"\n") == clock_request(1)
    comma = b"" if tail.lstrip(b" \t\r").startswith(b"]") else b","
    assert guest.deliver(clock_answer(1)) == b"s" + head + block() + comma + tail + b"\n"


@settings(max_examples=200)
@given(
    prompts(),
    st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True),
            st.sampled_from(["", *'{}[]",:\\ue0-+.tfn /1x\t']),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=3,
    ),
)
@example((b'{"id":1,"method":"session/prompt","params":{"prompt":[', b"NaN]}}"), [(0.0, "", 0)])
@example((b'{"id":1,"method":"session/prompt","params":{"prompt":[', b'"\x01n"]}}'), [(0.0, "", 0)])
def test_datetime_reads_damaged_json_as_a_parser_does(
    datetime: wasm_host.Module, prompt: tuple[bytes, bytes], damages: list[tuple[float, str, int]]
) -> None:
    text = b"".join(prompt).decode()
    for where, put_in, cut in damages:
        at = int(where * len(text))
        text = text[:at] + put_in + text[at + cut :]
    line = text.encode()
    guest = datetime.instantiate("datetime")
    expected = clock_request(1) if takes_block(line) else b"s" + line + b"\n"
    assert guest.deliver(b"p" + line + b"\n") == expected
