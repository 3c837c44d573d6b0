"""`datetime` in conversation: order from editor to agent, fresh times, refusals."""

import json
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wasm_host
from tests.components.guests import block, clock_answer, clock_request, load, prompt_line


@pytest.fixture(scope="module")
def datetime() -> wasm_host.Module:
    return load("datetime")


class Conversation:
    """`datetime` between an editor, an agent and a conductor whose clock ticks per answer."""

    def __init__(self, datetime: wasm_host.Module) -> None:
        self.guest = datetime.instantiate("datetime")
        self.unanswered: deque[int] = deque()
        self.prompts: list[tuple[int, int]] = []  # number, newest clock request before it
        self.sent: list[bytes] = []  # what the editor sent, in order
        self.arrived: list[bytes] = []  # what the agent got, in order
        self.asked = 0
        self.answers = 0
        self.refused = 0
        self.batch = b""
        self.expected_up = b""

    def editor_prompts(self) -> None:
        number = len(self.sent)
        self.prompts.append((number, self.asked))
        self.sent.append(prompt_line(number))
        self.batch += b"p" + self.sent[-1] + b"\n"

    def editor_sends(self) -> None:
        self.sent.append(
            b'{"method":"$/cancel_request","params":{"requestId":%d}}' % len(self.sent)
        )
        self.batch += b"p" + self.sent[-1] + b"\n"

    def agent_sends(self) -> None:
        line = b'{"method":"session/update","params":%d}\n' % len(self.batch)
        self.batch += b"s" + line
        self.expected_up += b"p" + line

    def clock_answers(self) -> None:
        if self.unanswered:
            # The time is the number of the request: a prompt's block tells who served it.
            ask = self.unanswered.popleft()
            self.batch += clock_answer(ask, str(ask))

    def clock_answers_the_last(self) -> None:
        self.unanswered.rotate(1)
        self.clock_answers()

    def clock_refuses(self) -> None:
        if self.unanswered:
            ask = self.unanswered.popleft()
            self.refused += 1
            self.batch += b'c{"id":%d,"error":{"code":-32601,"message":"no grant"}}\n' % ask

    def deliver(self) -> None:
        up = b""
        for line in self.guest.deliver(self.batch).splitlines(keepends=True):
            if line.startswith(b"c") and b'"clock"' in line:
                self.asked += 1
                assert line == clock_request(self.asked)
                self.unanswered.append(self.asked)
            elif line.startswith(b"s"):
                self.arrived.append(line[1:-1])
            elif line.startswith(b"p"):
                up += line
            else:
                assert line.startswith(b'c{"jsonrpc":"2.0","method":"log",')
                assert b"datetime: no clock" in line
                assert self.refused
        assert up == self.expected_up
        self.batch = self.expected_up = b""

    def finish(self) -> None:
        self.deliver()
        while self.unanswered:
            self.clock_answers()
            self.deliver()


EVENTS = [
    Conversation.editor_prompts,
    Conversation.editor_sends,
    Conversation.agent_sends,
    Conversation.clock_answers,
    Conversation.clock_answers_the_last,
    Conversation.clock_refuses,
    Conversation.deliver,
]


@given(st.lists(st.sampled_from(EVENTS), max_size=40))
def test_nothing_overtakes_and_every_prompt_gets_a_fresh_time(
    datetime: wasm_host.Module, events: list[Callable[[Conversation], None]]
) -> None:
    talk = Conversation(datetime)
    for event in events:
        event(talk)
    talk.finish()
    asked_before = dict(talk.prompts)
    assert len(talk.arrived) == len(talk.sent)
    bare = 0
    for number, (sent, arrived) in enumerate(zip(talk.sent, talk.arrived, strict=True)):
        if number not in asked_before or arrived == sent:
            assert arrived == sent
            bare += number in asked_before
            continue
        served_by = int(
            json.loads(json.loads(arrived)["params"]["prompt"][0]["text"].split('"')[3])
        )
        assert arrived == sent.replace(b"[", b"[" + block(str(served_by)))
        assert served_by > asked_before[number]
    assert not bare or talk.refused
