"""The harm of costly guests to others: a neighbour's round trips, and the accounts afterwards.

One chain: the attackers, a neighbour (`passthrough`), the bundled agent. The neighbour is compared
with the same chain with attackers that only pass everything on.
"""

import json
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from random import Random
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Final

import wasmtime

from benchmarks import proctree
from tests.hostile.costs import Attack, draw, module

PROMPTS: Final = 200
"""Round trips a neighbour is measured by."""

FAILED: Final = 12
"""Requests that may fail with attackers: each holds one when it is ended, four times at most."""

PAUSE: Final = 0.01
"""Seconds between two of them, as a person or an agent takes."""

PATIENCE: Final = 60.0
"""Seconds after which a request counts as hanging."""

QUIET: Final = 1.0
"""Seconds after which memory is looked at."""

ENDING: Final = 20.0
"""Seconds in which a chain ends once its editor has closed its end: the drain, and the grace of its
programs."""


@dataclass(slots=True)
class Account:
    """The result of one chain."""

    attacks: Sequence[Attack]
    trips: list[float] = field(default_factory=list)
    """Milliseconds."""
    before_mb: float = 0.0
    after_mb: float = 0.0
    most_mb: float = 0.0
    ending_s: float = 0.0
    code: int | None = None
    stderr: str = ""
    trouble: list[str] = field(default_factory=list)

    def percentile(self, part: float) -> float:
        """Of the round trips."""
        ordered = sorted(self.trips) or [0.0]
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class _Chain:
    """A conductor, and an editor's end of it."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._stderr = TemporaryFile()  # noqa: SIM115 - closed in `end`
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=dict(env),
            start_new_session=True,
        )
        self._answers: dict[int, Queue[Any]] = {}
        self._number = 0
        self.failed = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, method: str, params: object) -> Any:
        """Sends one request. Returns its result. A request that an attacker's end has failed is
        sent again.

        Raises `Empty` for a hanging request, `RuntimeError` for errors that name no attacker.
        """
        assert self.process.stdin is not None
        self._number += 1
        answers = self._answers[self._number] = Queue()
        body = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(body).encode() + b"\n")
        self.process.stdin.flush()
        answer = answers.get(timeout=PATIENCE)
        if "error" not in answer:
            return answer["result"]
        if not str(answer["error"].get("data", {}).get("component", "")).startswith("evil"):
            raise RuntimeError(str(answer["error"])[:500])
        self.failed += 1
        if self.failed > FAILED:
            raise RuntimeError(f"{FAILED} requests failed, the last: {answer['error']}"[:500])
        return self.ask(method, params)

    def memory_mb(self) -> float:
        """Of the conductor and all below it."""
        pids = [self.process.pid, *proctree.descendants(self.process.pid)]
        return sum(proctree.rss_mb(pid) for pid in pids)

    def end(self) -> tuple[float, int | None, str]:
        """Closes the editor's end: the seconds until the chain has ended, its code, its words."""
        assert self.process.stdin is not None
        began = time.monotonic()
        with suppress(OSError):
            self.process.stdin.close()
        code: int | None = None
        try:
            code = self.process.wait(timeout=2 * ENDING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        seconds = time.monotonic() - began
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._stderr.seek(0)
        words = self._stderr.read().decode(errors="replace")
        self._stderr.close()
        return seconds, code, words

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if b'"method"' in line[:200]:
                continue
            frame: Any = json.loads(line)
            waiting = self._answers.get(frame.get("id", 0)) if isinstance(frame, dict) else None
            if waiting is not None:
                waiting.put(frame)


def play(
    attacks: Sequence[Attack],
    conductor: Sequence[str],
    env: Mapping[str, str],
    cache: Path,
    *,
    options: Sequence[str] = (),
    prompts: int = PROMPTS,
) -> Account:
    """One chain with these attackers, measured and accounted for."""
    account = Account(attacks)
    with TemporaryDirectory() as folder:
        components = []
        for attack in attacks:
            path = Path(folder) / f"{attack.name}.wasm"
            path.write_bytes(bytes(wasmtime.wat2wasm(module(attack))))
            components.append(f"{path},on_failure=restart+bypass,{attack.options}")
        chain = _Chain(
            [*conductor, "agent", *options, "-c", f"cache={cache}", *components, "passthrough",
             "demo,name=agent"],
            env,
        )  # fmt: skip
        try:
            _use(chain, account, prompts)
        except Empty:
            account.trouble.append("a request hangs")
        except (RuntimeError, OSError) as error:
            account.trouble.append(str(error))
        account.ending_s, account.code, account.stderr = chain.end()
    judge(account)
    return account


def _use(chain: _Chain, account: Account, prompts: int) -> None:
    chain.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    session = chain.ask("session/new", {"cwd": "/", "mcpServers": []})["sessionId"]
    account.before_mb = account.most_mb = chain.memory_mb()
    for number in range(prompts):
        text = [{"type": "text", "text": f"/echo {number}"}]
        began = time.monotonic()
        chain.ask("session/prompt", {"sessionId": session, "prompt": text})
        account.trips.append((time.monotonic() - began) * 1000)
        if number % 20 == 0:
            account.most_mb = max(account.most_mb, chain.memory_mb())
        time.sleep(PAUSE)
    time.sleep(QUIET)
    account.after_mb = chain.memory_mb()


def judge(account: Account) -> None:
    """Notes all troubles of a chain."""
    if account.code is None or account.ending_s > ENDING:
        account.trouble.append(f"it takes {account.ending_s:.0f} s to end")
    for line in account.stderr.splitlines():
        if "passthrough" in line and line.startswith(("error: ", "warning: ")):
            account.trouble.append(f"the neighbour is blamed: {line[:300]}")
    if "Traceback (most recent" in account.stderr:
        account.trouble.append(f"a traceback: {account.stderr[-1500:]}")


def passive(attacks: Sequence[Attack]) -> list[Attack]:
    """The same guests, that only pass everything on."""
    return [Attack(one.name, options=one.options) for one in attacks]


def run(
    minutes: float, seed: int, conductor: Sequence[str], env: Mapping[str, str], cache: Path
) -> bool:
    """Draws compositions until the time is over; whether there was no trouble."""
    end = time.monotonic() + 60 * minutes
    number, good = 0, True
    while time.monotonic() < end:
        attacks = draw(Random(f"{seed}/{number}"))  # noqa: S311 - no secret is drawn
        alone = play(passive(attacks), conductor, env, cache, prompts=PROMPTS // 4)
        account = play(attacks, conductor, env, cache)
        print(line(f"{seed}/{number}", account, alone), flush=True)
        for trouble in account.trouble:
            print(f"  trouble: {trouble}", flush=True)
        good = good and not account.trouble
        number += 1
    return good


def line(name: str, account: Account, alone: Account) -> str:
    """One row for people."""
    what = " + ".join(
        f"{one.lines} x {one.line.size if one.line else 0} B"
        f"{' spin' if one.spin else ''} {one.options.partition(',')[0]}"
        for one in account.attacks
    )
    return (
        f"{name}: alone {median(alone.trips or [0]):.2f}/{alone.percentile(0.99):.1f} ms, beside "
        f"{median(account.trips or [0]):.2f}/{account.percentile(0.99):.1f} ms (median/p99), "
        f"{account.before_mb:.0f} → {account.after_mb:.0f} MB (most {account.most_mb:.0f}), "
        f"ends in {account.ending_s:.1f} s: {what}"
    )
