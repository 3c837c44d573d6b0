"""The memory of `datetime`: bounded by the longest delivery, not by their number."""

import json

import pytest

import wasm_host
from tests.components.guests import block, clock_answer, clock_request, load, prompt_line


@pytest.fixture(scope="module")
def datetime() -> wasm_host.Module:
    return load("datetime", message_bytes=32 << 20)


def test_memory_stays_as_it_is_over_many_deliveries(datetime: wasm_host.Module) -> None:
    guest = datetime.instantiate("datetime")
    update = b's{"method":"session/update","params":{}}\n'
    sizes = set()
    for number in range(1, 50_001):
        guest.deliver(b"p" + prompt_line(number) + b"\n")
        guest.deliver(clock_answer(number) + update)
        if number % 1000 == 0:
            sizes.add(guest.memory_bytes)
    assert len(sizes) == 1


def test_memory_stays_bounded_while_prompts_always_wait(datetime: wasm_host.Module) -> None:
    guest = datetime.instantiate("datetime")
    guest.deliver(b"p" + prompt_line(0) + b"\n")
    sizes = set()
    for number in range(1, 20_001):
        guest.deliver(b"p" + prompt_line(number) + b"\n")
        answer = guest.deliver(clock_answer(number))
        assert json.loads(answer[1:])["id"] == number - 1
        if number % 1000 == 0:
            sizes.add(guest.memory_bytes)
    assert len(sizes) == 1


def test_memory_holds_a_burst_and_gives_it_back_to_later_ones(datetime: wasm_host.Module) -> None:
    guest = datetime.instantiate("datetime")
    burst = b"".join(b"p" + prompt_line(number) + b"\n" for number in range(2000))
    sizes = []
    for ask in range(1, 11):
        assert guest.deliver(burst) == clock_request(ask)
        assert guest.deliver(clock_answer(ask)).count(block()) == 2000
        sizes.append(guest.memory_bytes)
    assert len(set(sizes)) == 1


def test_prompts_of_ten_and_twenty_megabytes(datetime: wasm_host.Module) -> None:
    """Three times the longest line is the memory it takes: the line in, held, and out."""
    guest = datetime.instantiate("datetime")
    line = b'{"id":1,"method":"session/prompt","params":{"prompt":[%s]}}\n'
    for ask, size in enumerate([10_000_000, 10_000_000, 15_000_000, 20_000_000], 1):
        image = b'{"type":"image","data":"' + b"iVBORw0K" * (size // 8) + b'"}'
        assert guest.deliver(b"p" + line % image) == clock_request(ask)
        spliced = b"s" + line % (block() + b"," + image)
        assert guest.deliver(clock_answer(ask)) == spliced
        memory = guest.memory_bytes
        assert memory is not None
        assert memory < 3 * size + 2**20
