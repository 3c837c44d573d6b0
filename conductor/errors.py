"""The errors a caller or a user meets, and the text of other people that they quote.

    ConductorError
    ├── UsageError       the request is impossible: an unknown name, a bad option (exit code 2)
    ├── ComponentError   a component could not be started or has failed (exit code 1)
    └── RequestError     a request was answered with an error

The command line shows an error as `error: …`, a blank line, `hint: …`. Components, manifests, file
names and agents may put any characters into such a text. `visible` and the functions below it write
out characters that a terminal would obey, and mark further lines so that none passes for a line of
ours. They also take out each value that `hide` has been given. All text that conductor writes to
people, and into its records, goes through here, so a secret cannot come there by any way.
Imports nothing heavy: the start path of `conductor agent` loads this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

from conductor.patterns import lazy_pattern

_BEYOND: Final = 16 * 1024
"""Characters behind the cut of a long line that are searched for the end of a secret."""

CONTINUED: Final = "  | "
"""The beginning of an entry's further lines. No line of ours begins like it."""

_ODD: Final = lazy_pattern(r"\r(?!\n)|[^\t\n\r\x20-\x7e]")
_FURTHER: Final = lazy_pattern(rf"\n(?!{re.escape(CONTINUED)})")
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00013441\U00013442"
    "\U00016fe4\U0001d159"
)
"""Letters and marks that show nothing, though Unicode has them among visible ones."""

_SELECTORS: Final = lazy_pattern("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_STYLES: Final = "\ufe0e\ufe0f"
"""Whether a symbol is shown as text or as a picture."""

_HIDDEN: Final[dict[str, str]] = {}
"""The text that is shown in place of each secret that this process has read."""
SHORTEST_SECRET: Final = 4
"""Characters: a shorter text stands in too many others, so it is not taken out of them."""
_STRING: Final = lazy_pattern(r'"(?:[^"\\]++|\\.)*"')
"""A string in a JSON text, or the name of a member."""

MARK: Final = "[redacted]"
"""The text in place of a secret that nobody has named, but that looks like one."""
_KEY: Final = "PRIVATE KEY-----"
_KEY_BYTES: Final = _KEY.encode()
_KEY_BEGINS: Final = "-----BEGIN "
_KEY_ENDS: Final = "-----END "
_KEY_LINES: Final = 200
"""The most lines of a private key: a key without an end must not hide all further lines."""

_SPACES: Final = "Zs"
_MARKS: Final = ("Mn", "Me")
_STACKED: Final = 4
"""Marks on one letter: no script needs more, and a pile of them covers the lines above it."""
_SYMBOLS: Final = ("So", "Sm")


class ConductorError(Exception):
    """A failure with a sentence for a person, a hint, and details for machines.

    Both texts may quote other people, so the error keeps them as `marked` shows them.
    """

    exit_code = 1

    def __init__(self, text: str, hint: str = "", data: dict[str, Any] | None = None) -> None:
        self.text = marked(text)
        self.hint = marked(hint)
        super().__init__(self.text)
        if self.hint:
            self.add_note(f"hint: {self.hint}")  # a traceback shows notes, and no attributes
        self.data = data or {}

    @property
    def with_hint(self) -> str:
        """The text, and the hint on a line of its own."""
        return f"{self.text}\nhint: {self.hint}" if self.hint else self.text


def did_you_mean(
    word: str, known: Iterable[str], otherwise: str = "", *, prefix: str = "", likeness: float = 0.6
) -> str:
    """A hint for an unknown word: the nearest known word, if one is near.

    Args:
        word: The word that the user wrote.
        known: All words that would have been right.
        otherwise: The hint if none is near.
        prefix: The words before the word in the hint, such as the name of the program.
        likeness: How near it must be, from 0 to 1, as `difflib` measures.
    """
    import difflib

    close = difflib.get_close_matches(word, list(known), 1, likeness)
    return f"did you mean `{prefix}{close[0]}`?" if close else otherwise


class UnknownWordError(ValueError):
    """A word that is not known. The text lists the known words; `hint` names the nearest."""

    def __init__(self, text: str, word: object, known: Iterable[str]) -> None:
        super().__init__(text)
        self.hint = did_you_mean(str(word), known)


def with_log(hint: str, path: str, messages: str = "") -> str:
    """A hint that also names the log file, and the file of the last messages, if there is one."""
    files = (("log", path), ("messages", messages))
    named = [f"{word}: {file}" for word, file in files if file]
    return "; ".join([hint, *named] if hint else named)


def place_of(error: Exception) -> str:
    """The kind and the place of an error. Its text may quote anybody, and is left out."""
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {frame.filename}:{frame.lineno}" for frame in last)
    return f"{type(error).__name__}{where}"


def hint_of(error: Exception) -> str:
    """The hint that an error brings, if any."""
    return getattr(error, "hint", "")


class UsageError(ConductorError):
    """The request is impossible: an unknown name, a bad option, a file that does not exist."""

    exit_code = 2


class ComponentError(ConductorError):
    """A component could not be started, or has failed."""


class RequestError(ConductorError):
    """A request was answered with an error.

    Raised for an error that the chain answered; a handler of the chain's requests raises it to
    answer with an error.

    Attributes:
        code: The code of JSON-RPC.
        message: The message, as it was sent.
        details: The `data` of the error, as it was sent.
        method: The request that failed; empty where a handler raises the error.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        details: object = None,
        method: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(f"{method} failed: {message}" if method else message, hint)
        self.code = code
        self.message = message
        self.details = details
        self.method = method


def hide(secret: str, shown: str) -> None:
    """From now on this process shows `shown` wherever it would write the secret, or a whole line of
    it, also within a JSON text in a text."""
    import json

    for line in (secret, *secret.splitlines()):
        for part in (line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1]):
            if len(part.strip()) >= SHORTEST_SECRET:
                _HIDDEN.setdefault(part.strip(), shown)


def hidden(text: str) -> str:
    """`text` without secrets."""
    for secret in sorted(_HIDDEN, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, _HIDDEN[secret])
    return text


def hidden_json(text: str) -> str:
    """A JSON text without secrets in its strings; all else stays as it is written."""
    return _STRING.sub(_without_secrets, text) if _HIDDEN else text


def hidden_json_line(line: bytes) -> bytes:
    """The same for the bytes of a JSON text."""
    if not _HIDDEN:
        return line
    return hidden_json(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _without_secrets(string: re.Match[str]) -> str:
    import json  # there are no secrets on most start paths

    text = json.loads(string[0], strict=False)
    clean = hidden(text)
    return string[0] if clean == text else json.dumps(clean)


class PrivateKeys:
    """Takes private keys out of the lines of one writer. It needs all lines, in order: the lines
    of a key look harmless without the lines around them."""

    def __init__(self) -> None:
        self._left = 0
        """The most lines that are left of the key that is being written."""

    def concerns(self, lines: Iterable[bytes]) -> bool:
        """Whether a part of a key may be among some lines; else `without` changes none of them."""
        return self._left > 0 or _KEY_BYTES in b"\n".join(lines)

    def without(self, line: str) -> str | None:
        """A line as it may be shown; None: it is part of a key, whose first line shows a mark."""
        left, last = self._left, line.rfind(_KEY)
        self._left = max(0, left - 1)
        if last < 0:
            return None if left else line
        head, tail = line[:last], line[last + len(_KEY) :]
        begins, ends = head.rfind(_KEY_BEGINS), head.rfind(_KEY_ENDS)
        # Behind the end of a key another may begin.
        if begins > ends:
            self._left, tail = _KEY_LINES, ""
        elif ends >= 0:
            self._left = 0
        if left:
            return None
        before, found, _ = head.partition(_KEY_BEGINS)
        return before + MARK + tail if found else line


def without_keys(lines: Sequence[str]) -> list[str]:
    """The last lines of a text without private keys, also one whose first lines are missing."""
    cut, kept = 0, ""
    for at, line in enumerate(lines, 1):
        if _KEY not in line:
            continue
        before, begin, behind = line.partition(_KEY_BEGINS)
        if _KEY_ENDS in before:  # all up to here is a part of a key
            cut, kept = at, begin + behind
        if begin:
            break
    keys = PrivateKeys()
    rest = [kept, *lines[cut:]] if kept else lines[cut:]
    shown = [line for line in map(keys.without, rest) if line is not None]
    return [MARK, *shown] if cut else shown


@cache
def _shapes() -> list[re.Pattern[str]]:
    from conductor.secret_shapes import SHAPES  # most start paths cut no text

    return [*map(re.compile, SHAPES.values())]


def without_shapes(text: str) -> str:
    """A text without the secrets of known shape (`conductor.secret_shapes`)."""
    for shape in _shapes():
        text = shape.sub(_without_secret, text)
    return text


def _without_secret(found: re.Match[str]) -> str:
    start, end = found.span(1) if found.re.groups else found.span()
    at = found.start()
    return f"{found[0][: start - at]}{MARK}{found[0][end - at :]}"


def visible(text: str) -> str:
    """`text`; each invisible character, or one that acts, is written out (`\\u{202e}`).

    Such characters are control and format characters, separators of lines, private or unassigned
    characters, and halves of characters. Tabs and newlines stay. Secrets are taken out.
    """
    return _ODD.sub(_written, hidden(text) if _HIDDEN else text)


def marked(text: str) -> str:
    """`visible` text with its further lines marked, to stand as an entry among ours."""
    text = visible(text)
    return _FURTHER.sub(f"\n{CONTINUED}", text) if "\n" in text else text


def one_line(text: object, most: int = 200) -> str:
    """Any value as one short line that is safe to show; null is an empty line.

    A long line loses the secrets of known shape before the cut: the log and a report look for them
    afterwards, and half a secret has no shape.
    """
    line = visible(" ".join(str(text).split())) if text is not None else ""
    if len(line) > most:
        line = without_shapes(line[: most + _BEYOND])
    return line if len(line) <= most else line[: most - 1] + "…"


def visible_path(text: str) -> str:
    """A path on one line: newlines in it are written out as well."""
    return visible(text).replace("\n", "\\u{a}")


def json_text(text: str) -> str:
    """A JSON text with the same characters escaped, so that programs read the same as before, and
    without secrets."""
    return _ODD.sub(_escaped, hidden_json(text))


def _written(match: re.Match[str]) -> str:
    character = match[0]
    return character if _is_seen(character, match) else f"\\u{{{ord(character):x}}}"


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if _is_seen(character, match):
        return character
    halves = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{halves[at : at + 2].hex()}" for at in range(0, len(halves), 2))


def _is_seen(character: str, match: re.Match[str]) -> bool:
    import unicodedata  # most texts have nothing but ASCII

    if _SELECTORS.match(character):
        before = match.string[max(0, match.start() - 1) : match.start()]
        return character in _STYLES and bool(before) and unicodedata.category(before) in _SYMBOLS
    if unicodedata.category(character) in _MARKS:
        before = match.string[max(0, match.start() - _STACKED) : match.start()]
        if len(before) == _STACKED and all(unicodedata.category(c) in _MARKS for c in before):
            return False
    if character.isprintable():
        return character not in _BLANK
    return unicodedata.category(character) == _SPACES


# -- numbers, articles and verbs of sentences ------------------------------------------------------

_WITH_ES: Final = ("s", "x", "z", "ch", "sh")


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 file`, `2 files`, `3 more deliveries`, `1,024 bytes`. Nothing else
    decides between the two."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of a noun, whose last word it changes."""
    if noun[-1:] == "y" and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_WITH_ES) else f"{noun}s"


def agrees(number: int, one: str, more: str) -> str:
    """The form of a verb that a number asks for: `differs` or `differ`."""
    return one if number == 1 else more


def are(number: int) -> str:
    """`is` or `are`."""
    return agrees(number, "is", "are")


def a(word: str) -> str:
    """A word with its article: `a FILE`, `an ADDRESS`."""
    return f"{'an' if word[:1].lower() in 'aeio' else 'a'} {word}"
