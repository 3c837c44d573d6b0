"""Links that get cut: many editors behind `conductor connect`, one server, a proxy between each.

A link is cut at a random moment, or where a message of a turn passes: before it, within it, after
it. Meanwhile new links may be refused, or a link may stay open and carry nothing. The editors must
notice nothing: each request is answered once, each update comes once and in order.
"""

import enum
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.chaos import endings, report, victims
from benchmarks.chaos.life import DEADLINE, Life, StuckError
from benchmarks.chaos.options import Options
from benchmarks.chaos.report import Summary
from benchmarks.chaos.script import Ending, LifePlan, chat, draw_turns
from benchmarks.measure import environment
from tests.harness.process.cutter import DOWN, UP, Cutter, Where

PROFILES = ("ws", "http")
_DRAIN = 60.0
"""Seconds a server may take to end: open turns have half of them."""

_PLAN = LifePlan((), "process", 0, Ending.EOF)

MARKS = (
    (UP, b"GET /acp"),
    (DOWN, b"HTTP/1.1 "),
    (UP, b"session/prompt"),
    (UP, b"optionId"),
    (UP, b"session/cancel"),
    (DOWN, b"session/update"),
    (DOWN, b"session/update"),
    (DOWN, b"session/request_permission"),
    (DOWN, b"stopReason"),
)
"""Messages at which a link is cut."""


class Kind(enum.Enum):
    """The harm to a link."""

    CUT = "cut at a moment"
    AWAY = "cut, and no new link for a while"
    FROZEN = "carries nothing for a while, then cut"
    MARK = "cut at a message"


@dataclass(frozen=True, slots=True)
class Blow:
    """One harm to a link: when in its round and for how long (both seconds); at which message."""

    kind: Kind
    after: float
    lasts: float
    way: str
    text: bytes
    where: Where


@dataclass(slots=True)
class Editor:
    """One client, its `conductor connect`, and the proxy before the server."""

    life: Life
    cutter: Cutter
    rounds: int = 0


@dataclass(slots=True)
class Crowd:
    """The editors of one server."""

    editors: list[Editor] = field(default_factory=list)

    def until(self, done: Callable[[Life], bool], what: str) -> None:
        """Serves all until it is true of each. Raises `StuckError` after the deadline."""
        last, seen = time.monotonic(), -1
        while not all(done(editor.life) for editor in self.editors):
            now, lines = time.monotonic(), sum(one.life.wire.lines for one in self.editors)
            if lines != seen:
                last, seen = now, lines
            ended = [one for one in self.editors if one.life.wire.ended]
            if ended or now - last > DEADLINE:
                why = "`conductor connect` ended" if ended else "nothing came any more"
                says = (ended or self.editors)[0].life.wire.stderr[-1800:]
                raise StuckError(f"waited for {what}: {why}\n{says}")
            for editor in self.editors:
                editor.life.serve(0.01 / len(self.editors))


def run(options: Options, conductor: Sequence[str], say: Callable[[str], None]) -> Summary:
    """Plays one server after the other until the time is over."""
    summary = Summary(options.seed)
    start = time.monotonic()
    over = start + 60 * options.minutes
    number = options.chain or 0
    while time.monotonic() < over and (options.chain is None or number == options.chain):
        rng = Random(f"{options.seed}/{number}")  # noqa: S311 - no secret is drawn
        profile, editors, rounds = rng.choice(PROFILES), rng.randint(1, 4), rng.randint(4, 12)
        say(f"server {number}: {profile}, {editors} editors, {rounds} rounds")
        _live(_Trial(number, profile, editors, rounds, over), rng, options, conductor, summary)
        number += 1
    summary.seconds = time.monotonic() - start
    return summary


@dataclass(frozen=True, slots=True)
class _Trial:
    number: int
    profile: str
    editors: int
    rounds: int
    over: float


def _live(
    trial: _Trial, rng: Random, options: Options, conductor: Sequence[str], summary: Summary
) -> None:
    env = environment(options.cache)
    crowd = Crowd()
    memory: list[float] = []
    with _noted(summary, trial), ExitStack() as stack:
        server, port = stack.enter_context(served(conductor, trial.profile, env))
        for _ in range(trial.editors):
            cutter = stack.enter_context(Cutter(port))
            command = [*conductor, "connect", f"{trial.profile}://127.0.0.1:{cutter.port}/acp"]
            life = Life(_PLAN, command, env)
            stack.callback(life.release)
            crowd.editors.append(Editor(life, cutter))
        with _noted(summary, trial):
            _play(crowd, trial, rng, lambda: memory.append(victims.pss_mb(server.pid)))
        for editor in crowd.editors:
            editor.life.ledger.close()
    if crowd.editors:
        endings.look_for_orphans(crowd.editors[0].life)
    _add(summary, crowd, memory)


@contextmanager
def _noted(summary: Summary, trial: _Trial) -> Iterator[None]:
    """Counts what is stuck."""
    try:
        yield
    except (StuckError, subprocess.TimeoutExpired) as error:
        summary.tally.failures += 1
        summary.tally.trouble(f"server {trial.number}: {error}")


@contextmanager
def served(
    conductor: Sequence[str], profile: str, env: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A server of the demo agent, and its port; it must end by itself when it is asked to."""
    with TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        command = [*conductor, "agent", "--listen", f"{profile}://127.0.0.1:0", "demo,name=agent"]
        with said.open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=errors, env=env, start_new_session=True
            )
        try:
            yield process, _port(process, said)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_DRAIN)
            finally:
                process.kill()
                process.wait()


def _port(process: subprocess.Popen[bytes], said: Path) -> int:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        found = [word for word in said.read_text().split() if "://127.0.0.1:" in word]
        if found:
            return int(found[0].partition("://127.0.0.1:")[2].partition("/")[0])
        time.sleep(0.02)
    raise StuckError(f"the server did not start: {said.read_text()[-1800:]}")


def _play(crowd: Crowd, trial: _Trial, rng: Random, look: Callable[[], None]) -> None:
    for editor in crowd.editors:
        editor.life.initialize()
    for number in range(trial.rounds):
        if number and time.monotonic() > trial.over:  # at least one round, on a slow machine too
            break
        for editor in crowd.editors:
            _begin(editor, rng, number)
        crowd.until(lambda life: life.quiet, "the end of the round")
        for editor in crowd.editors:
            editor.cutter.forget()
            session = editor.life.session()
            entry = editor.life.prompt(session, chat(f"{number}.proof", 0))
            editor.life.until_answered([entry])
            editor.rounds += 1
        look()
    for editor in crowd.editors:
        endings.compare_histories(editor.life)
        endings.end(editor.life)


def _begin(editor: Editor, rng: Random, number: int) -> None:
    """Starts the turns of a round and arms the harms to its link."""
    life, turns = editor.life, draw_turns(rng, number)
    blows = [draw_blow(rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    life.hold_permissions = rng.choice((0.0, 0.0, 0.1))
    sessions = [life.session() for _ in turns]
    for blow in blows:
        _arm(editor, blow)
    for session, turn in zip(sessions, turns, strict=True):
        life.prompt(session, turn)


def draw_blow(rng: Random) -> Blow:
    """One harm to a link."""
    way, text = rng.choice(MARKS)
    return Blow(
        rng.choice((Kind.CUT, Kind.AWAY, Kind.FROZEN, Kind.MARK, Kind.MARK, Kind.MARK)),
        rng.uniform(0, 0.1),
        rng.uniform(0.02, 0.4),
        way,
        text,
        rng.choice(tuple(Where)),
    )


def _arm(editor: Editor, blow: Blow) -> None:
    life, cutter = editor.life, editor.cutter
    life.count(blow.kind.value)
    if blow.kind is Kind.MARK:
        cutter.when(blow.way, blow.text, blow.where)
    elif blow.kind is Kind.CUT:
        life.later(blow.after, cutter.cut)
    elif blow.kind is Kind.AWAY:
        life.later(blow.after, lambda: cutter.refuse(True))
        life.later(blow.after + blow.lasts, lambda: cutter.refuse(False))
    else:
        life.later(blow.after, lambda: cutter.freeze(True))
        life.later(blow.after + blow.lasts, cutter.cut)
        life.later(blow.after + blow.lasts, lambda: cutter.freeze(False))


def _add(summary: Summary, crowd: Crowd, memory: list[float]) -> None:
    summary.lives += 1
    ending = Ending.SIGTERM.value
    summary.endings[ending] = summary.endings.get(ending, 0) + 1
    for editor in crowd.editors:
        life = editor.life
        life.tally.messages = life.wire.lines
        if "Traceback (most recent" in life.wire.stderr:
            life.tally.failures += 1
            life.tally.trouble(f"a traceback: {life.wire.stderr[-1500:]}")
        summary.tally.add(life.tally)
        summary.rounds += editor.rounds
        summary.harms["links cut"] = summary.harms.get("links cut", 0) + editor.cutter.made
        for what, count in life.harms.items():
            summary.harms[what] = summary.harms.get(what, 0) + count
    found = report.memory_of(memory)
    if found is not None:
        summary.memory.append(found)
