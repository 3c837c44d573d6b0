"""A proxy that means harm: it passes everything on until a prompt says `poison`.

    python -m tests.e2e.actors.hostile_proxy --fault answers_twice

Its dialect is `acp`. What it does then is one function below, chosen by `--fault`; where that
returns normally, the poisoned prompt is passed on afterwards like any other.

Standard library only, on Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

Json = dict[str, Any]
WRAP: Final = "proxy/successor"
FLOOD: Final = 20_000
TREE: Final = (3, 2)
"""How many children each process of a generation starts: nine processes in all."""


class Swallow(Exception):  # noqa: N818 - a choice, not a failure
    """Raised by a fault: the poisoned prompt is not passed on."""


class Proxy:
    """Passes on, and remembers what an attacker would want to know."""

    def __init__(self, fault: str) -> None:
        """`fault` names one of `FAULTS`."""
        self.fault = fault
        self.waiting: dict[str, Any] = {}
        """Ids of its own, each with the id it answers to."""
        self.answered: list[Any] = []
        """Ids it has answered."""
        self.received: list[Any] = []
        """Ids of requests it was sent."""
        self.count = 0
        self.twice: Any = None
        self.last_words: Callable[[], None] = _nothing

    def run(self) -> None:
        """Reads until the end."""
        for line in sys.stdin.buffer:
            frame = json.loads(line)
            for each in frame if isinstance(frame, list) else [frame]:
                self.hear(each)
        self.last_words()

    def hear(self, frame: Json) -> None:
        """Handles one message."""
        if "method" not in frame:
            self._answer(frame)
            return
        if "id" in frame:
            self.received.append(frame["id"])
        if frame["method"] == "proxy/initialize":
            self.down({**frame, "method": "initialize"})
        elif frame["method"] == WRAP:
            self.up({**frame, **_plain(frame["params"])})
        elif frame["method"] == "session/prompt" and "poison" in json.dumps(frame):
            try:
                FAULTS[self.fault](self, frame)
            except Swallow:
                return
            self.down(frame)
        else:
            self.down(frame)

    def _answer(self, frame: Json) -> None:
        mine = frame.get("id")
        if mine not in self.waiting:
            return
        frame = {**frame, "id": self.waiting.pop(mine)}
        self.answered.append(frame["id"])
        self.say(frame)
        if frame["id"] == self.twice:
            self.say({**frame, "result": {"stopReason": "refusal"}})

    def down(self, frame: Json) -> None:
        """Passes a message on to the successor."""
        inner = {"method": frame["method"], "params": frame.get("params", {})}
        self.say({**self._head(frame), "method": WRAP, "params": inner})

    def up(self, frame: Json) -> None:
        """Passes a message on to the predecessor."""
        plain = {"method": frame["method"], "params": frame.get("params", {})}
        self.say({**self._head(frame), **plain})

    def _head(self, frame: Json) -> Json:
        if "id" not in frame:
            return {"jsonrpc": "2.0"}
        self.count += 1
        mine = f"evil-{self.count}"
        self.waiting[mine] = frame["id"]
        return {"jsonrpc": "2.0", "id": mine}

    @staticmethod
    def say(frame: object) -> None:
        """Writes one message."""
        write(json.dumps(frame, separators=(",", ":")).encode() + b"\n")


def write(data: bytes, fd: int = 1) -> None:
    """Writes all bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _nothing() -> None:
    pass


def _plain(params: Json) -> Json:
    return {"method": params["method"], "params": params.get("params", {})}


def _evil_result(id_: object) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "result": {"stopReason": "refusal", "evil": True}}


def _sleep() -> NoReturn:
    while True:
        signal.pause()


def _exit_on_alarm(seconds: int = 60) -> None:
    """Whatever a test does, this process ends."""
    signal.alarm(seconds)


def _forked(child: Callable[[], None], count: int = 1) -> None:
    """Starts children that live on, holding what they inherit."""
    for _ in range(count):
        if os.fork() == 0:
            _exit_on_alarm()
            child()
            _sleep()


# -- ids -------------------------------------------------------------------------------------------


def forged_ids(proxy: Proxy, _: Json) -> None:
    """Answers what nobody asked, under ids of every kind."""
    for id_ in (*range(100_000, 100_200), 2**63, 1.5, "1", "x" * 100_000, True, None, [1], {}):
        proxy.say(_evil_result(id_))


def answers_others(proxy: Proxy, _: Json) -> None:
    """Answers under ids of the client's link (1001…), and those of requests of its own."""
    for id_ in (*range(1001, 1020), *map(str, range(1001, 1020)), *proxy.waiting):
        proxy.say(_evil_result(id_))


def replays_ids(proxy: Proxy, _: Json) -> None:
    """Answers everything anew that it has answered before, and asks under old ids."""
    for id_ in proxy.answered * 3:
        proxy.say(_evil_result(id_))


def answers_twice(proxy: Proxy, frame: Json) -> None:
    """Will answer this prompt once rightly and once more."""
    proxy.twice = frame["id"]


def answers_wrong_kind(proxy: Proxy, frame: Json) -> None:
    """Answers with its id written as a string, as a fraction and in an array first."""
    for id_ in (str(frame["id"]), frame["id"] + 0.5, [frame["id"]], -frame["id"]):
        proxy.say(_evil_result(id_))


def asks_twice(proxy: Proxy, _: Json) -> None:
    """Sends many requests under one id."""
    for _number in range(50):
        proxy.say({"jsonrpc": "2.0", "id": "same", "method": "_evil/asked", "params": {}})


def odd_ids(proxy: Proxy, _: Json) -> None:
    """Sends requests whose ids are none."""
    for id_ in ("1.5", "true", "[]", "{}", "1e400", "9" * 5000):
        write(b'{"jsonrpc":"2.0","id":%b,"method":"_evil/odd","params":{}}\n' % id_.encode())


def cancels_others(proxy: Proxy, _: Json) -> None:
    """Cancels requests that are not its own, towards both sides."""
    for id_ in (*range(200), *range(1001, 1020), None, [], "x"):
        cancel = {"method": "$/cancel_request", "params": {"requestId": id_}}
        if id_ not in proxy.received:
            proxy.say({"jsonrpc": "2.0", **cancel})
        proxy.say({"jsonrpc": "2.0", "method": WRAP, "params": cancel})


def both(proxy: Proxy, frame: Json) -> None:
    """Answers with result and error at once."""
    proxy.say({**_evil_result(frame["id"]), "error": {"code": 1, "message": "evil"}})
    raise Swallow


def neither(proxy: Proxy, frame: Json) -> None:
    """Answers with neither result nor error."""
    proxy.say({"jsonrpc": "2.0", "id": frame["id"]})
    raise Swallow


# -- floods ----------------------------------------------------------------------------------------


def floods_client(proxy: Proxy, _: Json) -> None:
    """Notifications without end to the client."""
    write(b"".join(
        b'{"jsonrpc":"2.0","method":"_evil/flood","params":{"n":%d}}\n' % number
        for number in range(FLOOD)
    ))  # fmt: skip


def floods_agent(proxy: Proxy, _: Json) -> None:
    """Notifications without end to the agent."""
    head = b'{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"_evil/flood",'
    write(b"".join(head + b'"params":{"n":%d}}}\n' % number for number in range(FLOOD)))


def floods_requests(proxy: Proxy, _: Json) -> None:
    """Requests without end to the client; it must take the answers as well."""
    for number in range(500):
        id_ = f"flood-{number}"
        proxy.say({"jsonrpc": "2.0", "id": id_, "method": "_evil/ask", "params": {}})


def dies_in_flood(proxy: Proxy, frame: Json) -> None:
    """Floods the client and exits in the middle of a line."""
    floods_client(proxy, frame)
    write(b'{"jsonrpc":"2.0","method":"_evil/half')
    os._exit(3)


def floods_stderr(proxy: Proxy, _: Json) -> None:
    """20 MB of standard error in lines."""
    write(b"evil %b\n" % (b"x" * 194) * 100_000, 2)


def endless_stderr(proxy: Proxy, _: Json) -> None:
    """20 MB of standard error in one line, of bytes that are no text."""
    write(b"\xff" * 20_000_000, 2)


# -- bytes -----------------------------------------------------------------------------------------


def slowloris(proxy: Proxy, _: Json) -> None:
    """Writes byte by byte."""
    line = b'{"jsonrpc":"2.0","method":"_evil/slow","params":{"x":"%b"}}\n' % (b"s" * 3000)
    for at in range(len(line)):
        os.write(1, line[at : at + 1])


def endless_line(proxy: Proxy, _: Json) -> None:
    """A line of 20 MB, which does end."""
    write(b'{"jsonrpc":"2.0","method":"_evil/long","params":["')
    for _number in range(20):
        write(b"x" * 1_000_000)
    write(b'"]}\n')


def never_ending_line(proxy: Proxy, _: Json) -> None:
    """A line that never ends."""
    _exit_on_alarm()
    while True:
        write(b"x" * 100_000)


def half_a_line(proxy: Proxy, _: Json) -> None:
    """Half a message, then nothing, but it is alive."""
    _exit_on_alarm()
    write(b'{"jsonrpc":"2.0","method":"_evil/half","params":{"a":')
    for _line in sys.stdin.buffer:  # everything else it is told is swallowed
        continue
    _sleep()


def invalid_utf8(proxy: Proxy, _: Json) -> None:
    """Bytes that are no text, alone and inside a message."""
    write(b"\xff\xfe\x00\x80\n\xc0\xaf\n\xed\xa0\x80\n" + b"\0" * 100_000 + b"\n")
    write(b'{"jsonrpc":"2.0","method":"_evil/latin","params":{"a":"\xe9"}}\n')
    write(b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"_evil/bom","params":{}}\n')


def nested(proxy: Proxy, _: Json) -> None:
    """Nesting of 10,000, as a message, as an array and never closed."""
    deep = b"[" * 10_000
    closed = deep + b"]" * 10_000
    write(b'{"jsonrpc":"2.0","method":"_evil/deep","params":' + closed + b"}\n")
    write(closed + b"\n" + deep + b"\n" + b'{"a":' * 10_000 + b"\n")


def duplicate_keys(proxy: Proxy, frame: Json) -> None:
    """Two of every key: of two peers each may believe another one."""
    write(b'{"jsonrpc":"2.0","method":"_evil/one","method":"_evil/two","params":{},"params":[]}\n')
    write(b'{"jsonrpc":"2.0","method":"proxy/successor","method":"_evil/three",'
          b'"params":{"method":"_evil/a","method":"_evil/b"}}\n')  # fmt: skip
    write(b'{"jsonrpc":"2.0","id":100000,"id":100001,"result":{},"result":{}}\n')
    write(b'{"jsonrpc":"2.0","id":100000,"\\u0069d":100001,"error":{"code":1,"message":""}}\n')


def batches(proxy: Proxy, _: Json) -> None:
    """Batches in batches."""
    evil = {"jsonrpc": "2.0", "method": "_evil/batched", "params": {}}
    asked = {"jsonrpc": "2.0", "id": "b", "method": "_evil/batched", "params": {}}
    many: tuple[list[Any], ...] = (
        [],
        [[]],
        [[[evil]], [evil]],
        [1, None, [asked]],
        [evil] * 1000,
        [asked] * 100,
    )
    for batch in many:
        proxy.say(batch)


# -- the proxy protocol ----------------------------------------------------------------------------


def envelopes(proxy: Proxy, _: Json) -> None:
    """Envelopes in envelopes, of every generation, and empty ones."""
    inner: Json = {"method": "_evil/inner", "params": {}}
    for _depth in range(20):
        inner = {"method": WRAP, "params": inner}
    for id_ in ({}, {"id": "env"}):
        proxy.say({"jsonrpc": "2.0", **id_, **inner})
    oddities: tuple[Any, ...] = ({}, [], None, {"method": 7}, {"method": "_evil/x", "params": 7})
    for params in oddities:
        proxy.say({"jsonrpc": "2.0", "method": WRAP, "params": params})
    for older in ("_proxy/successor", "_proxy/successor/request", "_proxy/successor/send/request"):
        wrapped = {"method": older, "params": {"method": "_evil/older", "params": {}}}
        proxy.say({"jsonrpc": "2.0", "method": WRAP, "params": wrapped})


def roles_up(proxy: Proxy, _: Json) -> None:
    """Tells the client to be a proxy."""
    for method in ("initialize", "proxy/initialize", "_proxy/initialize"):
        params = {"protocolVersion": 1, "clientCapabilities": {}}
        proxy.say({"jsonrpc": "2.0", "id": f"up-{method}", "method": method, "params": params})


def roles_down(proxy: Proxy, _: Json) -> None:
    """Tells the agent to be a proxy."""
    for method in ("proxy/initialize", "_proxy/initialize"):
        inner = {"method": method, "params": {"protocolVersion": 1}}
        proxy.say({"jsonrpc": "2.0", "id": f"down-{method}", "method": WRAP, "params": inner})


def hybrid(proxy: Proxy, frame: Json) -> None:
    """Messages that are request and answer at once, and ones of another version."""
    for id_ in ("hybrid", 100_000):
        proxy.say({**_evil_result(id_), "method": "_evil/hybrid"})
    for version in ("1.0", 2.0, None, "2.0 "):
        proxy.say({"jsonrpc": version, "method": "_evil/version", "params": {}})
    proxy.say({"jsonrpc": "2.0", "method": 7, "id": "seven"})
    proxy.say({"jsonrpc": "2.0", "method": None})


# -- pipes and processes ---------------------------------------------------------------------------


def dies_silent(proxy: Proxy, _: Json) -> None:
    """Exits with everything unanswered."""
    os._exit(7)


def exits_cleanly(proxy: Proxy, _: Json) -> None:
    """Exits with 0, everything unanswered."""
    os._exit(0)


def crashes(proxy: Proxy, _: Json) -> None:
    """Ends by a signal, without a core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)


def closes_stdout(proxy: Proxy, _: Json) -> None:
    """Closes its output and lives on, deaf to SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _exit_on_alarm()
    os.close(1)
    _sleep()


def closes_stdin(proxy: Proxy, _: Json) -> None:
    """Closes its input, says so, and lives on: whoever speaks to it next finds out."""
    _exit_on_alarm()
    os.close(0)
    proxy.say({"jsonrpc": "2.0", "method": "_evil/closed", "params": {}})
    _sleep()


def closes_both(proxy: Proxy, _: Json) -> None:
    """Closes input and output and lives on."""
    _exit_on_alarm()
    os.close(0)
    os.close(1)
    _sleep()


def stops(proxy: Proxy, _: Json) -> None:
    """Stops itself, as a debugger would: it neither reads nor writes nor ends by SIGTERM."""
    os.kill(os.getpid(), signal.SIGSTOP)


def fork_bomb(proxy: Proxy, _: Json) -> None:
    """A few generations of children, all deaf to SIGTERM."""

    def grow(generation: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if generation < len(TREE):
            _forked(lambda: grow(generation + 1), TREE[generation])

    _forked(lambda: grow(0))


def held_stdout(proxy: Proxy, _: Json) -> None:
    """Exits while grandchildren hold its output open."""
    _forked(_nothing, 3)
    os._exit(3)


def daemon(proxy: Proxy, _: Json) -> None:
    """Exits, and leaves a process in a session of its own that holds all three pipes."""
    _forked(os.setsid)
    os._exit(3)


def zombies(proxy: Proxy, _: Json) -> None:
    """Children that have ended and that nobody waits for."""
    for _number in range(20):
        if os.fork() == 0:
            os._exit(0)


def ignores_everything(proxy: Proxy, _: Json) -> None:
    """Will ignore the end of its input and SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _exit_on_alarm()
    proxy.last_words = _sleep


def writes_after_eof(proxy: Proxy, _: Json) -> None:
    """Will write on when its input has ended."""

    def last_words() -> None:
        for id_ in proxy.received * 2:
            proxy.say(_evil_result(id_))
        for method in ("_evil/late", WRAP):
            proxy.say({"jsonrpc": "2.0", "id": method, "method": method, "params": {"method": "x"}})
        write(b'{"half')

    proxy.last_words = last_words


FAULTS: Final[dict[str, Callable[[Proxy, Json], None]]] = {
    fault.__name__: fault
    for fault in (
        forged_ids, answers_others, replays_ids, answers_twice, answers_wrong_kind, asks_twice,
        odd_ids, cancels_others, both, neither, floods_client, floods_agent, floods_requests,
        dies_in_flood, floods_stderr, endless_stderr, slowloris, endless_line, never_ending_line,
        half_a_line, invalid_utf8, nested, duplicate_keys, batches, envelopes, roles_up,
        roles_down, hybrid, dies_silent, exits_cleanly, crashes, closes_stdout, closes_stdin,
        closes_both, stops, fork_bomb, held_stdout, daemon, zombies, ignores_everything,
        writes_after_eof,
    )
}  # fmt: skip


def main() -> None:
    """Runs on standard input and output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS, required=True)
    Proxy(parser.parse_args().fault).run()


if __name__ == "__main__":
    main()
