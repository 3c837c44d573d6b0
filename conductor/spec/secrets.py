"""Secrets by reference: settings, or variables of a program, whose values are elsewhere.

    {"secret": "env:NAME"}               a variable of conductor's environment
    {"secret": "file:PATH"}              a file; one line end behind the value is dropped
    {"secret": "keyring:SERVICE/USER"}   the system's store of passwords

A user writes the reference, and a `Spec` holds the reference. So neither of them can show the
value. It is read when the component starts or gets its settings. From then on
`conductor.errors.hide` takes it out of all that this process writes to people and into its records.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Final

from conductor.errors import SHORTEST_SECRET, UsageError, hide
from conductor.spec import untrusted_files

KEY: Final = "secret"
_KINDS: Final = ("env:", "file:", "keyring:")
FORMS: Final = "a secret is `env:NAME`, `file:PATH` or `keyring:SERVICE/USER`"
_MOST: Final = 64 * 1024
"""Bytes of a secret."""


def is_reference(value: object) -> bool:
    """Whether a value of a setting, or of a variable, refers to a secret."""
    return isinstance(value, dict) and value.keys() == {KEY} and isinstance(value[KEY], str)


def check(value: Any) -> None:
    """Raises `ValueError` for a reference, in this value or in one within it, that cannot be
    right."""
    if is_reference(value):
        kind, _, place = value[KEY].partition(":")
        service, _, user = place.rpartition("/")
        if f"{kind}:" not in _KINDS or not place or (kind == "keyring" and not (service and user)):
            raise ValueError(FORMS)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            check(inner)


def references(variables: dict[str, Any], who: str) -> dict[str, str]:
    """The references of variables that are secrets. Raises `UsageError` for anything else."""
    for name, value in variables.items():
        try:
            if not is_reference(value):
                raise ValueError("it is a text or a secret")
            check(value)
        except ValueError as error:
            raise UsageError(f"the variable `{name}` of `{who}`: {error}", FORMS) from None
    return {name: value[KEY] for name, value in variables.items()}


def anchored(value: Any, here: str) -> Any:
    """The value with the paths of its references starting from the folder `here`, if given."""

    def placed(reference: str) -> dict[str, str]:
        kind, _, place = reference.partition(":")
        if kind == "file":
            reference = f"file:{os.path.join(here, os.path.expanduser(place))}"
        return {KEY: reference}

    return _replaced(value, placed) if here else value


def kept(clean: Any, value: Any) -> Any:
    """A redacted value with the references of `value`: references may be shown. A text in the form
    of a reference that cannot be valid may be the secret itself, and stays redacted."""
    if is_reference(value):
        return value if _is_right(value) else clean
    if isinstance(value, dict) and isinstance(clean, dict):
        return {key: kept(clean.get(key), inner) for key, inner in value.items()}
    if isinstance(value, list) and isinstance(clean, list) and len(value) == len(clean):
        return [kept(*both) for both in zip(clean, value, strict=True)]
    return clean


def _is_right(reference: Any) -> bool:
    try:
        check(reference)
    except ValueError:
        return False
    return True


def filled(value: Any, who: str) -> Any:
    """The value with the secrets that it refers to. Raises `UsageError` that names `who`."""
    return _replaced(value, lambda reference: read(reference, who))


def _replaced(value: Any, replacement: Callable[[str], Any]) -> Any:
    """The value with something else in the place of each reference, wherever it is."""
    if is_reference(value):
        return replacement(value[KEY])
    if isinstance(value, dict):
        return {key: _replaced(inner, replacement) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, replacement) for inner in value]
    return value


def read(reference: str, who: str) -> str:
    """The value that a reference names. Raises `UsageError` that names both, never the value."""
    kind, _, place = reference.partition(":")
    try:
        value = _READERS[kind](place)
    except _MissingError as missing:
        raise UsageError(
            f"`{who}` needs the secret `{reference}`: {missing}", missing.hint
        ) from None
    wrong = _wrong(value)
    if wrong:
        raise UsageError(f"`{who}` cannot have the secret `{reference}`: it {wrong}", FORMS)
    hide(value, shown(reference))
    return value


def shown(reference: str) -> str:
    """The text that is shown in place of the value."""
    return f"[secret {reference}]"


def _wrong(value: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:  # bytes of a variable that are no text
        return "is no UTF-8 text"
    if size > _MOST:
        return f"has more than {_MOST:,} bytes"
    if "\0" in value:
        return "holds a NUL, which no variable can"
    if not value.strip():
        return "is empty"
    if len(value.strip()) < SHORTEST_SECRET:
        return f"has fewer than {SHORTEST_SECRET} characters, too few to be kept out of logs"
    return ""


class _MissingError(Exception):
    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


def _of_environment(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        hint = f"set the variable {name} where conductor is started; an editor has its own"
        raise _MissingError("there is no such variable in conductor's environment", hint)
    return value


def _of_file(path: str) -> str:
    try:
        text = untrusted_files.read(os.path.expanduser(path), _MOST).decode()
    except OSError as error:
        hint = "write the secret into that file, readable by you alone"
        raise _MissingError(error.strerror or "it cannot be read", hint) from None
    except UnicodeDecodeError:
        raise _MissingError("it is no UTF-8 text", "a secret is a text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _of_keyring(place: str) -> str:
    service, _, user = place.rpartition("/")
    try:
        # By its name: the package is optional, and takes long to import.
        value = importlib.import_module("keyring").get_password(service, user)
    except ImportError:
        from conductor import installation  # no start needs it

        hint = f"`{installation.with_extra('keyring')}`"
        raise _MissingError("the package `keyring` is not installed", hint) from None
    except Exception as error:  # each store has errors of its own
        hint = "try `keyring get SERVICE USER` on a terminal"
        raise _MissingError(f"the store failed ({type(error).__name__})", hint) from None
    if value is None:
        raise _MissingError("the store has no such entry", f"`keyring set {service} {user}`")
    return str(value)


_READERS: Final = {"env": _of_environment, "file": _of_file, "keyring": _of_keyring}
