"""The options behind a component: `proxy.wasm,allow=clock,memory=32MiB`.

`OPTIONS` is the one declaration of each option: how it is written, which change of a `Spec` it
makes, and its row in docs/reference.md. A component that is a JSON object has the same options as
keys.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from conductor.core import json_text
from conductor.core.dialects import DIALECTS
from conductor.core.policy import words
from conductor.core.restart_state import CHOICES
from conductor.errors import UnknownWordError, UsageError, hint_of
from conductor.mcp import KINDS as MCP_KINDS
from conductor.patterns import lazy_pattern
from conductor.spec import limits
from conductor.spec.model import Spec
from conductor.spec.option_table import given_twice
from conductor.spec.origins import COMMAND_LINE, layered
from conductor.spec.programs import NAME_RULE, is_name

_MOST_RETRIES: Final = 100

Options: TypeAlias = list[tuple[str, Any]]
"""Options as the user wrote them: keys and values, in order."""

_replace = msgspec.structs.replace


class OptionError(UsageError):
    """An option of a component that cannot be; `key` is its name."""

    def __init__(self, key: str, text: str, hint: str) -> None:
        super().__init__(text, hint)
        self.key = key


class Option(msgspec.Struct, frozen=True):
    """One option."""

    name: str
    """A name that ends with `.KEY` stands for any word behind the dot."""
    value: str
    """How its value is written: `NAME`."""
    change: Callable[[Spec, Any, str], Spec]
    """The spec with the option. Arguments: spec, value, the word in place of `KEY`.

    Raises `ValueError` with the fault of the value."""
    help: str
    """Its meaning, in Markdown."""


# -- how options change a spec ---------------------------------------------------------------------


def _field(field: str, read: Callable[[Any], Any]) -> Callable[[Spec, Any, str], Spec]:
    return lambda spec, value, _: _replace(spec, **{field: read(value)})


def _policy(field: str, read: Callable[[Any], Any]) -> Callable[[Spec, Any, str], Spec]:
    return lambda spec, value, _: _replace(
        spec, policy=_replace(spec.policy, **{field: read(value)})
    )


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise UnknownWordError(f"must be {' or '.join(choices)}", value, choices)
        return str(value)

    return read


def _name(value: Any) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise ValueError(f"a name is {NAME_RULE}")
    return value


def _file(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("is the name of a file of settings; single ones are `config.KEY=VALUE`")
    return os.path.abspath(value)


def _dialect(value: Any) -> str:
    if not isinstance(value, str) or value not in DIALECTS:
        raise UnknownWordError(f"dialects are: {', '.join(DIALECTS)}", str(value), DIALECTS)
    return value


def _ids(value: Any) -> str:
    if value != "kept":
        raise ValueError("is `kept`, or left out")
    return str(value)


def _seconds(value: Any) -> float:
    return limits.seconds(str(value))


def _with(spec: Spec, rights: Iterable[str], **fields: Any) -> Spec:
    """The component with other rights."""
    policy = _replace(spec.policy, rights=tuple(dict.fromkeys(rights)))
    return _replace(spec, policy=policy, **fields)


def _only(spec: Spec, value: Any, _: str) -> Spec:
    return _with(spec, _of_program(spec, words.read(value)), chosen=True)


def _allow(spec: Spec, value: Any, _: str) -> Spec:
    return _with(spec, (*spec.policy.rights, *_of_program(spec, words.read(value))))


def _deny(spec: Spec, value: Any, _: str) -> Spec:
    denied = _of_program(spec, words.read_denied(value))
    rights = words.without(spec.policy.rights, denied)
    return _with(spec, rights, denied=(*spec.denied, *denied))


def _of_program(spec: Spec, names: tuple[str, ...]) -> tuple[str, ...]:
    """The words. Raises `ValueError` for a right of the world where no sandbox keeps it away."""
    outside = words.of_world(names) if spec.has_machine else ""
    if outside:
        raise ValueError(
            f"`{outside}` is a right of the machine, and a program has the machine anyway: "
            "its services need no word"
        )
    return names


def _enforce(spec: Spec, value: Any, _: str) -> Spec:
    policy, wants = spec.policy, spec.manifest.rights if spec.manifest is not None else None
    match _one_of(*_WATCHED)(value):
        case "watch":
            if not policy.enforced:
                raise ValueError(
                    "a trusted component has no rules to enforce: give the component rights too",
                )
            policy = _replace(policy, watched=True, fails="open", on_violation="pass")
        case _:
            judged = policy.rights
            if wants is not None and not spec.chosen:
                judged = words.without((*judged, *wants), spec.denied)
            outside = (one for one in words.flat(policy.rights) if words.beyond(one))
            policy = _replace(policy, rights=(words.TRUSTED, *outside), judged=judged)
    return _replace(spec, policy=policy)


_WATCHED: Final = ("watch", "watch-rights")


def _token(spec: Spec, value: Any, _: str) -> Spec:
    from conductor.spec import secrets

    _only_at_an_address(spec)
    reference = value if isinstance(value, dict) else {secrets.KEY: value}
    if not secrets.is_reference(reference):
        raise ValueError(secrets.FORMS)
    secrets.check(reference)
    return _replace(spec, token=reference[secrets.KEY])


def _ca(spec: Spec, value: Any, _: str) -> Spec:
    _only_at_an_address(spec)
    if not isinstance(value, str) or not value:
        raise ValueError("is the name of a file with certificates (PEM)")
    return _replace(spec, ca=os.path.abspath(value))


def _only_at_an_address(spec: Spec) -> None:
    if spec.address is None:
        raise ValueError("it is an option of components at an address, such as `wss://HOST`")


def _retries(spec: Spec, value: Any, _: str) -> Spec:
    if spec.address is None and spec.command is None:
        raise ValueError("it is an option of programs, and of components at an address")
    if not str(value).isdecimal() or int(value) > _MOST_RETRIES:
        raise ValueError(f"is a number up to {_MOST_RETRIES}")
    return _replace(spec, retries=int(value))


def _config(spec: Spec, value: Any, key: str) -> Spec:
    setting = _json(value)
    if isinstance(setting, dict | list):
        from conductor.spec import secrets

        secrets.check(setting)
    return _replace(spec, config={**spec.config, key: setting})


def _limit(spec: Spec, value: Any, name: str) -> Spec:
    return _replace(spec, limits={**spec.limits, name: limits.read(name, value)})


def _short_limit(name: str) -> Callable[[Spec, Any, str], Spec]:
    return lambda spec, value, _: _limit(spec, value, name)


# -- the table -------------------------------------------------------------------------------------

# fmt: off
OPTIONS: Final = (
    # Options change a spec in this order, whatever order they are written in: `only` replaces the
    # rights that are there, and `deny` wins.
    Option("name", "NAME", _field("name", _name),
           "the component's name in logs and errors. A name that is taken gets a number: "
           "`client-2`. `client` is always taken"),
    Option("dialect", "NAME", _field("dialect", _dialect),
           "the component's dialect: `acp`, `sdk`, `sacp`, `pacp`, `scp`, `channel`. Default: "
           "detected"),
    Option("only", "WORDS", _only,
           "all [rights](security.md#rights) of the component, joined by `+`: `context+clock`. "
           "Without this option a sandboxed component has the rights that you have agreed to. "
           "Without an agreement it has `context`, or the part of `context` that its manifest asks "
           "for. A bundled component has the rights that its manifest asks for. All other "
           "components have `trusted`. `conductor help rights` lists the words"),
    Option("allow", "WORDS", _allow,
           "rights in addition to the others, such as `add:replies+clock`"),
    Option("deny", "WORDS", _deny,
           "rights that the component never gets, even if another option gives them. A word denies "
           "also each word that includes it. A verb (`web`) denies all its words, and a set denies "
           "its members"),
    Option("fails", "closed|open", _policy("fails", _one_of("closed", "open")),
           "the way of a held message when the component fails or breaks a rule. `closed`: "
           "conductor refuses a request, and leaves out an update. `open`: conductor passes the "
           "original message on"),
    Option("ids", "kept", _policy("ids", _ids),
           "for a program that passes requests on with the ids they came with. Guests of `channel` "
           "always do so. A program that may also send such requests of its own needs this option, "
           "as with `full` or `prompt:within`. Only the ids tell these requests apart"),
    Option("hold", "SECONDS", _policy("hold", _seconds),
           "how long the component may hold a prompt"),
    Option("on_violation", "pass|fail", _policy("on_violation", _one_of("pass", "fail")),
           "the action after a violation. Conductor always undoes and reports the violation. With "
           "`fail` conductor also ends the component"),
    Option("enforce", "|".join(_WATCHED), _enforce,
           "`watch`: the component gets every message, and none of its acts takes effect. Each "
           "change, answer, drop or message is an entry of the log. `watch-rights`: the component "
           "may do everything to the conversation, as with `only=trusted`. Each act that its "
           "rights would have stopped is an entry (`conductor log show --would`)"),
    Option("on_failure", "CHOICE", _field("on_failure", _one_of(*CHOICES)),
           "the action when the component fails. `fail`: the chain ends. `restart`: conductor "
           "restarts the component, at most three times a minute; then as `fail`. Conductor also "
           "restarts a program that ends at its start. Conductor restarts an "
           "[agent](conversation.md#an-agent-that-is-started-again) only if the agent can load its "
           "sessions. `bypass`: the chain goes on without the component. `restart+bypass`: first "
           "`restart`, then `bypass`. Default: `restart` for sandboxed proxies, `fail` for others. "
           "A proxy that launches its successor itself (dialect `scp`) always has `fail`"),
    Option("token", "SECRET", _token,
           "for a component at an [address](remote.md#addresses): the token that conductor shows "
           "there. Write the token as a reference to a [secret](configuration.md#secrets): "
           "`env:NAME`, `file:PATH` or `keyring:SERVICE/USER`"),
    Option("ca", "FILE", _ca,
           "for a component at an address with TLS: the certificates (PEM) of the authorities to "
           "trust, instead of the system's"),
    Option("retries", "NUMBER", _retries,
           "how often conductor tries again to start a program or to connect to an address. "
           "Conductor tries again only before the component's first message. Pauses grow up to 8 "
           "seconds"),
    Option("mcp_bridge", "KIND", _field("mcp_bridge", _one_of(*MCP_KINDS)),
           "for an agent: how this agent reaches the MCP servers of proxies, with the values of "
           "the option `mcp-bridge`"),
    Option("timeout", "SECONDS", _field("timeout", _seconds),
           "how long the component may take to answer a request, such as `30` or `500ms`. Prompts "
           "have no such limit. A component that does not answer `initialize` in this time has "
           "failed. After a restart conductor does not restart such a component again. A guest "
           "that holds `initialize` at its first start stays in the chain, if its dialect is "
           "known. Without this option a proxy may take 60 s for `initialize`, an agent 120 s"),
    Option("quiet", "SECONDS", _field("quiet", _seconds),
           "for an agent: how long the agent may send no message in a turn while it waits for "
           "nobody. After this time conductor cancels the turn and answers the prompt with an "
           "error. In ACP v2 a notice gives the reason"),
    *(
        Option(limit.short, limit.measure.upper(), _short_limit(limit.name),
               f"the same as `limit.{limit.name}`: {limit.bounds}")
        for limit in limits.TABLE if limit.short
    ),
    Option("config", "FILE", _field("config_file", _file),
           "the component's settings, in a TOML or a `.json` file. With `--reload`, or at SIGHUP, "
           "conductor sends the settings of a changed file again"),
    Option("config.KEY", "VALUE", _config,
           "one setting of the component. Conductor reads a VALUE that is JSON as JSON, and "
           '`{"secret":"env:NAME"}` as a [secret](configuration.md#secrets)'),
    Option("limit.KEY", "NUMBER", _limit,
           "one [limit](configuration.md#limits) of the component: a number, a size such as "
           "`32MiB`, or a time such as `500ms`. A time without a unit is in milliseconds"),
)
# fmt: on

NAMES: Final = tuple(option.name for option in OPTIONS)
_SHORT: Final = {limit.short: f"limit.{limit.name}" for limit in limits.TABLE if limit.short}
_RIGHTS: Final = ("only", "allow", "deny")
_HELP: Final = "`conductor help component` explains every option"

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "dialect": tuple(DIALECTS),
    "only": (*words.SETS, *words.TABLE),
    "allow": (*words.SETS, *words.TABLE),
    "deny": (*words.FORBIDDING, *words.ALL_VERBS, *words.SETS, *words.TABLE),
    "on_failure": CHOICES,
    "mcp_bridge": MCP_KINDS,
}


def choices(option: Option) -> tuple[str, ...]:
    """The values of an option, if they can be listed."""
    listed = tuple(option.value.split("|")) if option.value.islower() else ()
    return _CHOICES.get(option.name, listed)


_PLACES: Final = {option.name: place for place, option in enumerate(OPTIONS)}
_WORDS: Final = "|".join(re.escape(name).replace("KEY", r"\w+") for name in _PLACES)
_READ: Final = "|".join((_WORDS, *words.FORMER_OPTIONS))
"""Options of before are read too, so that the error can name the words of now."""
PATTERN: Final = lazy_pattern(rf",({_READ})=")
"""An option behind a comma, up to its value."""

HINT: Final = f"options are: {', '.join(NAMES)}"


def option_like(
    word: str, settings: Iterable[str], further: Iterable[str] = (), *, value: bool = False
) -> str:
    """A hint for a word that is no option: an option with a similar name, if there is one.

    Args:
        word: The word that the user wrote.
        settings: The settings of the component: `config.KEY`.
        further: Other words that may stand there.
        value: Whether the value is missing.
    """
    known = {name: f"limit.{name}" for name in limits.LIMITS}
    known |= {name: name for name in (*further, *NAMES) if "." not in name}
    own = {name: f"config.{name}" for name in settings}
    known |= own
    last = word.lower().rpartition(".")[2]  # `settings.tokens` is no option either
    meant = known.get(word) or known.get(last)
    if meant is None:
        import difflib

        # A setting first: the component's own words are more likely than another option.
        close = difflib.get_close_matches(last, own, 1) or difflib.get_close_matches(
            last, known, 1, 0.7 if own else 0.6
        )
        meant = known[close[0]] if close else None
    if meant is not None:
        return f"did you mean `{meant}{'=…' * value}`?"
    return f"its settings are: {', '.join(own.values())}" if own and not further else ""


# -- reading ---------------------------------------------------------------------------------------


def apply(
    spec: Spec, options: Options, set_by: Callable[[str], str] = lambda _: COMMAND_LINE
) -> Spec:
    """The spec with its options, each a layer. `set_by`: who has written an option. Raises
    `UsageError` with a hint."""
    name, settings = spec.name, spec.manifest.config if spec.manifest is not None else {}
    times = Counter(_SHORT.get(key, key) for key, _ in options if key not in ("allow", "deny"))
    for key, value in sorted(options, key=lambda option: _place(option[0])):
        if times[_SHORT.get(key, key)] > 1:
            twice = given_twice(key)
            raise OptionError(key, f"{twice.text} for `{name}`", twice.hint)
        if key in words.FORMER_OPTIONS:
            was = f"{key}={'+'.join(words.split(value))}"
            raise OptionError(
                key,
                f"`{was}` of `{name}`: {OF_RIGHTS}",
                f"write `{'='.join(of_now(key, value))}`; {words.HINT}"
                f"{_setting_hint(key, settings)}",
            )
        if not is_option(key):
            hint = option_like(key, settings) or HINT
            raise OptionError(key, f"`{key}` of `{name}`: there is no such option", hint)
        try:
            option = OPTIONS[_place(key)]
            # The quotes of `config.KEY="5"` say that the setting is a text.
            quoted = isinstance(value, str) and value.startswith(('"', "["))
            is_json = quoted and option.change != _config
            inner = key.partition(".")[2]
            changed = option.change(spec, _json(value) if is_json else value, inner)
            spec = layered(spec, changed, set_by(key))
        except ValueError as error:
            written = value if isinstance(value, str) else json_text.encode(value).decode()
            # A setting that is refused may be a secret where a reference to it was meant.
            is_hidden = key.startswith("config.") or key == "token"
            shown_as = key if is_hidden else f"{key}={written}"
            hint = hint_of(error) or (words.HINT if key in _RIGHTS else _HELP)
            hint += _setting_hint(key, settings)
            raise OptionError(key, f"`{shown_as}` of `{name}`: {error}", hint) from None
    return spec if spec.manifest is None else filled(spec)


OF_RIGHTS: Final = "rights are words of `only`, `allow` and `deny`"


def of_now(key: str, value: object) -> tuple[str, str]:
    """The option, and its words, that stand for one of `words.FORMER_OPTIONS` and its value."""
    was = f"{key}={'+'.join(words.split(value))}"
    return "only" if key == "profile" else "allow", words.former(was)


def filled(spec: Spec) -> Spec:
    """The component with the rights whose scope a setting has (`read:{config.folders}/**`). Raises
    `UsageError` for a setting that is no such scope."""
    asked = (spec.manifest.rights or ()) if spec.manifest is not None else ()
    if not any("{" in name for name in (*spec.policy.rights, *asked)):
        return spec
    values = {**spec.defaults, **spec.config}
    try:
        words.filled(asked, values)  # `lacking.asked` fills these words later, without a check
        rights = words.filled(spec.policy.rights, values)
    except ValueError as error:
        hint = f"change the setting; `conductor inspect {spec.name}` shows which there are"
        raise UsageError(f"a setting of `{spec.name}` gives no right: {error}", hint) from None
    return _with(spec, words.without(rights, spec.denied))


def _setting_hint(key: str, settings: Iterable[str]) -> str:
    """How to write the setting whose name an option has, or nearly has; or an empty text."""
    import difflib

    setting = next(iter(difflib.get_close_matches(key, settings, 1, 0.8)), "")
    return f"; the setting `{setting}` is written `config.{setting}`" if setting else ""


def is_option(key: str) -> bool:
    """Whether there is an option of this name."""
    return _place(key) < len(OPTIONS)


def _place(key: str) -> int:
    """The place of an option in the table; the end of the table if there is no such option."""
    base, _, inner = key.partition(".")
    return _PLACES.get(f"{base}.KEY" if inner else key, len(OPTIONS))


def _json(value: Any) -> Any:
    """A value: JSON where it is JSON, else text."""
    if not isinstance(value, str):
        return value
    try:
        read = json_text.decode(value)
    except msgspec.DecodeError:
        return value
    if isinstance(read, dict | list):
        from conductor.spec import written_json  # a chain seldom needs it

        written_json.refuse_doubled(value)
    return read
