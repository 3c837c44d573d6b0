"""Refuses permission requests by rule, or lets them be granted only once; never grants one.

conductor agent 'permission-guard,config.rules=[{"path":".env"}]' claude-agent-acp
"""

import posixpath
import re
import shlex
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from guest_sdk.python import Proxy, Request, Update

Patterns = str | list[str] | None
REJECTS = ("reject_once", "reject_always")
FINISHED = ("completed", "failed", "cancelled")
REMEMBERED = 512
"""Tool calls of one session that are kept in mind."""


@dataclass
class Rule:
    """A rule: the action for requests that fit all its patterns."""

    action: Literal["reject", "once", "ask"] = "reject"
    tool: Patterns = None
    title: Patterns = None
    kind: Patterns = None
    path: Patterns = None
    command: Patterns = None
    outside: bool | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        self.matchers = {
            "tool": [compiled(one) for one in listed(self.tool)],
            "title": [compiled(one) for one in listed(self.title)],
            "kind": [compiled(one) for one in listed(self.kind)],
            "command": [compiled(one) for one in listed(self.command)],
            "path": [compiled_path(one) for one in listed(self.path)],
        }


@dataclass
class Config:
    """The settings; README.md explains each."""

    rules: list[Rule] = field(default_factory=list)
    otherwise: Literal["reject", "once", "ask"] = "ask"


@dataclass
class Calls:
    """Tool calls of a session, as far as the agent has told of them, by id."""

    known: dict[str, dict[str, Any]] = field(default_factory=dict)


proxy = Proxy(
    "permission-guard",
    description="Refuses permission requests by rule; never grants one.",
    config=Config,
    session=Calls,
)


# -- what passes -------------------------------------------------------------------------------


@proxy.update("tool_call", "tool_call_update")
def remember(update: Update) -> None:
    """Keeps the tool call: a later request may give the id alone."""
    id_, calls = update.update.get("toolCallId"), update.state.known
    if update.replayed or not isinstance(id_, str):
        return
    if update.update.get("status") in FINISHED:
        calls.pop(id_, None)
        return
    calls[id_] = merged(calls.pop(id_, {}), update.update)
    while len(calls) > REMEMBERED:
        del calls[next(iter(calls))]


@proxy.request("session/request_permission")
async def decide(request: Request, following: Any) -> Any:
    if request.direction != "up":
        return await following(request)
    facts = Facts(request)
    action, why = verdict(facts)
    options = request.params.get("options")
    options = options if isinstance(options, list) else []
    if action == "once":
        kept = [one for one in options if kind_of(one) in ("allow_once", *REJECTS)]
        if kept:
            request.params["options"] = kept
            return await following(request)
        action = "reject"  # nothing is left that could be shown
    if action == "ask":
        return await following(request)
    proxy.log.warn(f"refused `{facts.shown}`: {why}")
    return request.refuse()


def kind_of(option: Any) -> Any:
    """The kind of an option; None if it has none."""
    kind = option.get("kind") if isinstance(option, dict) else None
    return kind if isinstance(kind, str) else None


def merged(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """A tool call as it is after an update."""
    return {**before, **{key: value for key, value in after.items() if value is not None}}


# -- what is asked for -------------------------------------------------------------------------


class Facts:
    """The facts of a permission request that rules can speak of."""

    def __init__(self, request: Request) -> None:
        subject = request.params.get("subject")
        subject = subject if isinstance(subject, dict) else {}
        call = request.params.get("toolCall", subject.get("toolCall"))
        call = call if isinstance(call, dict) else {}
        session = request.session if "sessionId" in request.params else None
        if session is not None:
            call = merged(session.state.known.get(call.get("toolCallId"), {}), call)
        given = call.get("rawInput")
        given = given if isinstance(given, dict) else {}
        known = session.cwd if session is not None else None
        self.cwd = posixpath.normpath(known) if known else None
        titles = [call.get("title"), request.params.get("title")]
        self.title = [one for one in titles if isinstance(one, str)]
        self.kind = [one for one in (call.get("kind"),) if isinstance(one, str)]
        self.tool = [one for one in (call.get("name"), *meta_names(call)) if isinstance(one, str)]
        self.path = [self._absolute(one) for one in paths(call, given, subject)]
        self.command = list(commands(call, given, subject, self.title))
        told = self.title or self.tool or self.command or self.path or self.kind or ["something"]
        self.shown = told[0]

    def _absolute(self, path: str) -> str:
        if path.startswith("file://"):
            path = urllib.parse.unquote(path.removeprefix("file://"))
        return posixpath.normpath(posixpath.join(self.cwd or "/", path.replace("\\", "/")))

    def below(self, path: str) -> str | None:
        """A path relative to the session's folder; None for one that is elsewhere.

        The folder of a session that began before this proxy was started again is not known.
        """
        if self.cwd is None:
            return None
        if path == self.cwd:
            return "."
        head = self.cwd.rstrip("/") + "/"
        return path.removeprefix(head) if path.startswith(head) else None

    def relative(self, path: str, *, whole: bool) -> list[str]:
        """The forms of a path that patterns without a slash at the front may mean.

        Without a folder any of those it may have, unless the `whole` has to fit.
        """
        if self.cwd is None and not whole:
            names = path.strip("/").split("/")
            return ["/".join(names[at:]) for at in range(len(names))]
        below = self.below(path)
        return [] if below is None else [below]


def meta_names(call: dict[str, Any]) -> Iterator[Any]:
    """Names of the tool that agents put into `_meta`."""
    meta = call.get("_meta")
    held = [meta, *meta.values()] if isinstance(meta, dict) else []
    for one in held:
        if isinstance(one, dict):
            yield from (one[key] for key in ("toolName", "tool_name") if key in one)


PATH_KEYS = re.compile(r"(^|_)(path|file|filename|filepath|directory|dir)s?$")


def paths(call: dict[str, Any], given: dict[str, Any], subject: dict[str, Any]) -> Iterator[str]:
    """Every path a request names: places, diffs, arguments."""
    for key in ("locations", "content"):
        held = call.get(key)
        for one in held if isinstance(held, list) else []:
            if isinstance(one, dict) and isinstance(one.get("path"), str):
                yield one["path"]
    yield from arguments(given)
    yield from strings(subject.get("cwd"))


def arguments(given: Any) -> Iterator[str]:
    """Every path among arguments; the arguments' names tell the paths."""
    if isinstance(given, list):
        for one in given:
            yield from arguments(one)
    elif isinstance(given, dict):
        for key, value in given.items():
            if PATH_KEYS.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()):
                yield from strings(value)
            yield from arguments(value)


def commands(
    call: dict[str, Any], given: dict[str, Any], subject: dict[str, Any], titles: list[str]
) -> Iterator[str]:
    """The command lines a request names, whole."""
    found = False
    for held in (given.get("command"), given.get("cmd"), given.get("script"), subject):
        command = held.get("command") if isinstance(held, dict) else held
        if isinstance(command, list):
            words = list(strings(command))
            command = words[2] if len(words) == 3 and words[1].startswith("-") else None
            yield shlex.join(words)
            found = True
        if isinstance(command, str):
            more = subject.get("args") if held is subject else given.get("args")
            yield " ".join([command, *(strings(more) if isinstance(more, list) else ())])
            found = True
    if not found and call.get("kind") == "execute":
        yield from (one.strip().strip("`") for one in titles)


def strings(value: Any) -> Iterator[str]:
    """A text, or the texts of a list."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str):
            yield one


SEPARATORS = re.compile(r"&&|\|\||[;|&\n()`]|\$\(")
KEYWORDS = r"(?:if|then|elif|else|while|until|do|!|\{)\s+"
WRAPPERS = r"(?:sudo|doas|env|nohup|time|timeout|nice|xargs|exec|command|builtin|setsid|stdbuf)\s+"
BEFORE = re.compile(rf"^(?:{KEYWORDS}|{WRAPPERS}|\w+=\S*\s+)+")
WRAPPED = re.compile(rf"^(?:{KEYWORDS}|\w+=\S*\s+)*{WRAPPERS}")
QUOTES = re.compile(r"[\"'\\]")
WORDS = 64
"""Words of a command line behind `sudo` and the like that are looked at for a command."""


def parts(command: str, *, whole: bool) -> list[tuple[str, ...]]:
    """The commands of a command line, each in the forms a pattern may mean it.

    Behind `sudo -u me` and the like any word may be the command; where the `whole` has to fit what
    a rule lets through, none of them is taken for it.
    """
    found: list[tuple[str, ...]] = []
    for one in dict.fromkeys([command, *SEPARATORS.split(command)]):
        line = " ".join(one.split())
        plain = BEFORE.sub("", line)
        word, blank, rest = plain.partition(" ")
        bare = QUOTES.sub("", word)
        forms = [one.strip(), line, plain, bare + blank + rest]
        forms.append(posixpath.basename(bare) + blank + rest)
        if not whole and WRAPPED.match(line):
            words = line.split(" ")
            forms += [
                " ".join([posixpath.basename(QUOTES.sub("", words[at])), *words[at + 1 :]])
                for at in range(1, min(len(words), WORDS))
            ]
        if plain:
            found.append(tuple(forms))
    return found[1:] if len(found) > 1 else found


# -- rules -------------------------------------------------------------------------------------


def verdict(facts: Facts) -> tuple[str, str]:
    """The action of the first rule that fits, and why.

    A refusal fits if one thing a request is about does; what lets a request through to the user
    must fit all. One thing is also enough for `once` to narrow what else would just be asked.
    """
    once = False
    for number, rule in enumerate(proxy.config.rules, 1):
        why = rule.reason or f"rule {number}"
        if fits(rule, facts, whole=rule.action != "reject"):
            return "once" if once and rule.action == "ask" else rule.action, why
        once = once or (rule.action == "once" and fits(rule, facts, whole=False))
    otherwise = proxy.config.otherwise
    return "once" if once and otherwise == "ask" else otherwise, "no rule lets it be asked for"


def fits(rule: Rule, facts: Facts, *, whole: bool) -> bool:
    """Whether a rule speaks of the `whole` of a request, or else of anything in it."""
    some = all if whole else any
    for name, patterns in rule.matchers.items():
        if not patterns:
            continue
        things = forms(facts, name, whole=whole)
        if not things or not some(
            any(one.search(form) for one in patterns for form in thing) for thing in things
        ):
            return False
    if rule.outside is None:
        return True
    if facts.cwd is None:
        return bool(facts.path) and not whole
    away = [facts.below(one) is None for one in facts.path]
    return bool(away) and some(one is rule.outside for one in away)


def forms(facts: Facts, name: str, *, whole: bool) -> list[tuple[str, ...]]:
    """The values of a request that a kind of pattern is compared with, each in all its forms."""
    if name == "command":
        lines = [] if whole else [(one,) for one in facts.command]
        return lines + [part for one in facts.command for part in parts(one, whole=whole)]
    if name == "path":
        return [(one, *facts.relative(one, whole=whole)) for one in facts.path]
    return [(one,) for one in getattr(facts, name)]


def listed(patterns: Patterns) -> list[str]:
    """The patterns as a list."""
    return [patterns] if isinstance(patterns, str) else list(patterns or ())


def compiled(pattern: str) -> re.Pattern[str]:
    """`re:EXPRESSION`, or a whole text with `*` and `?`. Raises `ValueError`."""
    if not pattern.startswith("re:"):
        starred = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
        return re.compile(rf"\A{starred}\Z", re.IGNORECASE | re.DOTALL)
    try:
        return re.compile(pattern[3:], re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"`{pattern}` is no regular expression: {error}") from None


def compiled_path(pattern: str) -> re.Pattern[str]:
    """A glob of paths: without a slash a name anywhere; a folder means all below it as well."""
    if pattern.startswith("re:"):
        return compiled(pattern)
    inner, anywhere = pattern.removesuffix("/").removeprefix("./"), "/" not in pattern.rstrip("/")
    said = re.escape(inner).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*")
    said = said.replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    begin = "(?:.*/)?" if anywhere else ""
    return re.compile(rf"\A{begin}{said}(?:/.*)?\Z", re.IGNORECASE | re.DOTALL)


if __name__ == "__main__":
    proxy.run()
