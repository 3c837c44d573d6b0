"""How a component is written: with options behind commas, or as a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.core.policy import words
from conductor.errors import UsageError, one_line
from conductor.patterns import lazy_pattern
from conductor.spec.component_options import HINT, PATTERN, OptionError, Options, option_like

WRITTEN: Final = (
    ("`./proxy.wasm`", "a path that ends in `.wasm`: a sandboxed proxy"),
    (
        "`./proxy.py`, `./folder/`",
        (
            "Python source, sandboxed. In a folder conductor runs `proxy.py`, `main.py` or "
            "`__main__.py`, see [`guest_sdk/python`](../guest_sdk/python/README.md)"
        ),
    ),
    (
        "`./my-proxy`",
        (
            "a folder with a `component.toml`, which names the file or command to run, see [The "
            "manifest](proxies.md#the-manifest)"
        ),
    ),
    (
        "`datetime`",
        (
            "a name. Conductor looks for it in this order: a chain or a component of the "
            "[configuration](configuration.md#chains-and-names), an [installed "
            "component](proxies.md#install-components), a bundled component (`conductor list "
            "--bundled`), a known agent, a program on PATH"
        ),
    ),
    (
        "`@work`",
        ("a named chain of the configuration; the name stands for the components of the chain"),
    ),
    ("`path:claude`", "the program `claude` on PATH, even if a component has the same name"),
    (
        '`"python my_proxy.py --fast"`',
        (
            "a command: conductor splits the text like a shell, and runs the command without a "
            "shell; not sandboxed"
        ),
    ),
    ('`"demo --no-v2"`', "a bundled agent with arguments"),
    (
        "`wss://host`, `unix:/run/x`",
        "a component that runs elsewhere, at this [address](remote.md#addresses); not sandboxed",
    ),
    ("`py:package.module:function`", "Python code in this process; not sandboxed"),
    ("""`'{"command":"node","args":["p.js"]}'`""", "[a JSON object](#as-a-json-object)"),
    (
        "`-- claude-agent-acp`",
        "the last component: all words after `--` are one command, as they are typed",
    ),
)
"""How a component is written, in Markdown: docs/reference.md has the same table."""

_decode: Final = json_text.Decoder(dict[str, Any]).decode
_LIKE_OPTION: Final = lazy_pattern(r",([A-Za-z]\w*(?:\.\w+)*)(?:(=)|(?=,|$))")
_OBJECT_HINT: Final = (
    'an object has "command" (with "args" and "env"), "wasm" or "name", '
    'e.g. {"command": "python", "args": ["my_proxy.py"]}; every option may be a key of it'
)


def split(text: str) -> tuple[str, Options]:
    """`("p.wasm", [("allow", "clock")])` for `p.wasm,allow=clock`; only known keys are options.

    A value reaches to the next comma, or, if it is a JSON string, list or object, to its end. Text
    in quotes of a command belongs to the command.
    """
    if "," not in text:  # to compile the pattern takes as long as much of a start
        return text, []
    for begin in PATTERN.finditer(text):
        if _in_quotes(text, begin.start()):
            continue
        options = _options(text, begin.start())
        if options is not None:
            return text[: begin.start()], options
    return text, []


def _in_quotes(text: str, at: int) -> bool:
    """Whether a place is within quotes, as a shell reads them: quotes that end, too."""
    quote, escaped = "", False
    for character in text[:at]:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
    return bool(quote) and quote in text[at:]


def _options(text: str, at: int) -> Options | None:
    """The options from here to the end; None where something else is among them."""
    options: Options = []
    while at < len(text):
        key = PATTERN.match(text, at)
        if key is None:
            return None
        at = _value_end(text, key.end())
        options.append((key[1], text[key.end() : at]))
    return options


def _value_end(text: str, start: int) -> int:
    if text[start : start + 1] in ('"', "[", "{"):
        import json  # msgspec reads whole texts only

        try:
            end = json.JSONDecoder().raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            end = -1
        if text[end : end + 1] == "," or end == len(text):
            return end
    end = text.find(",", start)
    return len(text) if end < 0 else end


def misread(base: str, error: UsageError, settings: Callable[[str], Collection[str]]) -> UsageError:
    """The error for a component that does not exist: an error about a word in `base` that looks
    like an option, or else `error` itself. `base` is the text before the options that were read.

    Paths may hold commas, so a misspelt option counts as a part of the path. `settings` returns
    the settings of a component.
    """
    for found in _LIKE_OPTION.finditer(base):
        key, equals = found.groups()
        if PATTERN.match(f",{key}="):
            continue
        if hint := option_like(key, settings(base.partition(",")[0]), value=not equals):
            return UsageError(f"no option `{key}` in `{base}`", hint)
    option = PATTERN.search(base)
    if option is not None:
        text = base[option.start() + 1 :]
        return UsageError(
            error.text,
            f"`{text}` is not read as an option: a value with commas is written in quotes, "
            f"""as in '…,{text.partition("=")[0]}="a,b"'""",
        )
    like = _LIKE_OPTION.search(base)
    if like is None:
        return error
    key, equals = like.groups()
    if equals:
        return UsageError(f"no option `{key}` in `{base}`", HINT)
    if key in words.FORMER_OPTIONS:
        return UsageError(
            f"no option `{key}` in `{base}`: rights are words of `only`, `allow` and `deny`",
            words.HINT,
        )
    if PATTERN.match(f",{key}="):
        return UsageError(
            f"no value for the option `{key}` in `{base}`", f"`{key}` is given as `{key}=…`"
        )
    return error


# -- as a JSON object ------------------------------------------------------------------------------


class ComponentObject(msgspec.Struct):
    """A component as a JSON object, or as a table of a file, without its options.

    Exactly one of `command`, `wasm` and `component` is set.
    """

    command: str | None = None
    """A program; it runs with the rights of the user."""
    args: list[str] = []
    """The arguments of `command`."""
    env: dict[str, str | dict[str, str]] | None = None
    """Variables of `command`: texts, or references to secrets (`conductor.spec.secrets`)."""
    wasm: str | None = None
    """The path of a WebAssembly module; it runs sandboxed."""
    component: str | None = None
    """Its name or path on a command line, without options."""

    @property
    def kind(self) -> str:
        """The key that gives its kind."""
        return next(key for key in KINDS if getattr(self, key) is not None)


KINDS: Final = ("command", "wasm", "component")
"""Keys that give the kind of a component."""

_SHAPES: Final = {"args": "a list of texts", "env": "a table of variables", "limits": "a table"}
"""The shape of a key's value; a value of any other key that is no option is a text."""


def read_object(given: str | dict[str, Any]) -> tuple[ComponentObject, Options]:
    """Reads an object, or its text: `{"wasm": "proxy.wasm", "grant": "clock"}`.

    Raises `UsageError`.
    """
    try:
        members = {**given} if isinstance(given, dict) else _decoded(given)
    except ValueError as error:
        what = f"component {one_line(given, 80)}"
        raise UsageError(f"cannot read {what}: {error}", _OBJECT_HINT) from None
    component = ComponentObject()
    for key in ComponentObject.__struct_fields__:
        if key in members:
            setattr(component, key, _member(key, members.pop(key)))
    if not isinstance(members.get("limits", {}), dict):
        raise _misshapen("limits")
    kinds = [getattr(component, key) for key in KINDS].count(None)
    if kinds == 3 and isinstance(members.get("name"), str):
        component.component = members.pop("name")
    elif kinds != 2:
        raise UsageError("a component object has exactly one kind", _OBJECT_HINT)
    for key in ("args", "env"):
        if getattr(component, key) and component.command is None:
            raise OptionError(key, f"`{key}` means nothing without `command`", _OBJECT_HINT)
    return component, list(_object_options(members))


def _decoded(given: str) -> dict[str, Any]:
    from conductor.spec import written_json  # a chain seldom needs it

    members = _decode(given)
    written_json.refuse_doubled(given)
    return members


def _member(key: str, value: Any) -> Any:
    """The value of a key of a `ComponentObject`. Raises `OptionError`."""
    if key == "env" and isinstance(value, dict):
        return value  # each variable is checked where its line is known
    try:
        return getattr(msgspec.convert({key: value}, ComponentObject), key)
    except msgspec.ValidationError:
        raise _misshapen(key) from None


def _misshapen(key: str) -> OptionError:
    """The error for a value of another type; the value itself may be a secret."""
    return OptionError(key, f"`{key}` is {_SHAPES.get(key, 'a text')}", _OBJECT_HINT)


def _object_options(members: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    for key, value in members.items():
        if key == "config" and isinstance(value, dict):
            # Text stays text, whatever it looks like: `_config` reads JSON.
            for inner, setting in value.items():
                text = isinstance(setting, str)
                yield f"config.{inner}", json_text.encode(setting).decode() if text else setting
        elif key == "limits" and isinstance(value, dict):
            for inner, limit in value.items():
                yield f"limit.{inner}", limit
        else:
            yield key, value
