"""The content of a managed policy, and its strict reader.

`File` is its one declaration (`conductor.spec.toml_files`). Reading is closed: any mistake in the
file is an error, and then nothing runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from conductor.core import json_text
from conductor.core.policy import scopes, words
from conductor.errors import UsageError, hint_of, visible_path
from conductor.spec import guarded, limits, toml_files, untrusted_files
from conductor.spec.managed import real_path
from conductor.spec.toml_files import Key, Mistake

BUNDLED: Final = "bundled"
"""A source: every component that comes with conductor; `bundled:NAME` is one of them."""

ANY: Final = "any"

CONTENTS: Final = ("none", "redacted", "all")
"""How much of messages a record holds, from the least on."""

_MOST: Final = 1024 * 1024
"""Bytes of a policy."""

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Content = Literal["none", "redacted", "all"]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the policy: no key but those it declares."""


class Most(_Table, frozen=True, kw_only=True):
    """The most that a proxy may do and cost; a key that is missing bounds nothing."""

    only: list[str] | None = None
    """The words for its rights (`context`, `web:api.example.com`)."""
    deny: list[str] = []
    """The words for rights that it may not have; these words win."""
    limits: dict[str, Any] = {}
    """By their full names (docs/configuration.md#limits): numbers, or texts such as `64MiB`."""


class Entry(_Table, frozen=True, kw_only=True):
    """A component that may run; all that is named must hold."""

    source: str | None = None
    """`bundled`, `bundled:NAME`, an address, or an absolute path, which may have `*` and `**` in
    it."""
    sha256: Digest | None = None
    """Of the module, the Python source or the program, as `conductor lock` writes it."""
    signer: str | None = None
    """The file of the public key that the component is signed with."""
    args: list[str] | Literal["any"] = []
    """Of a program: its exact arguments, or `any`."""
    env: list[str] = []
    """Of a program: the variables that its component may set."""


class Allowed(Entry, frozen=True, kw_only=True):
    """A proxy that may run."""

    most: Most | None = None
    """Holds in place of the policy's own `most`."""


class Required(Entry, frozen=True, kw_only=True):
    """A proxy that every chain has."""

    place: Literal["first", "last", "anywhere"] = "anywhere"
    """`first`: next to the client; `last`: next to the agent."""
    options: dict[str, Any] = {}
    """Its options, as in a component that is a JSON object."""


class File(_Table, frozen=True, kw_only=True):
    """A whole `policy.toml`."""

    contact: str
    """The person to ask about the policy: each refusal shows this."""
    enforce: Literal["all", "watch"] = "all"
    """`watch`: nothing is refused, and each would-be refusal is an entry of the chain's log."""
    agents: list[Entry] | None = None
    """The agents that may run; missing: any."""
    components: list[Allowed] | None = None
    """The proxies that may run besides the required ones; missing: any."""
    required: list[Required] = []
    most: Most = Most()
    audit: str | None = None
    """The file that every chain is recorded in; `{user}` is the name of the user."""
    audit_content: Content = "redacted"
    """How much of changed messages that file holds."""
    trace: bool = True
    """Whether traces may be written."""
    control: bool = True
    """Whether running chains have a control socket (`conductor ps`, `pause` …)."""
    content: Content = "all"
    """The most of each message that traces and audits of the user's own may hold."""
    pin_mcp: bool = False
    """Whether the client's MCP servers are reached in the agent's place."""
    changed_tools: Literal["ask", "keep", "drop"] = "ask"
    """The least reaction to a change of an MCP server's tools (`conductor.mcp.ON_CHANGE`)."""
    require_sandbox: bool = False
    require_hardening: bool = False
    build_commands: bool = False
    """Whether `conductor test --build` may run the command of a manifest."""


class Managed(msgspec.Struct, frozen=True):
    """The policy, with its text and place for refusals."""

    file: File
    text: str
    path: str

    @property
    def only_watches(self) -> bool:
        """Whether it refuses nothing."""
        return self.file.enforce == "watch"

    @property
    def audit(self) -> str | None:
        """The file that the user's chains are recorded in."""
        path = self.file.audit
        return None if path is None else path.replace("{user}", _user())

    def line(self, *at: Key) -> str:
        """The place of a key: `FILE, line N`."""
        number = toml_files.line_of(self.text, at)
        return f"{self.path}, line {number}" if number else self.path

    def refusal(self, text: str, *at: Key, hint: str = "") -> UsageError:
        """The refusal by the rule at these keys."""
        key = shown(at)
        return UsageError(
            f"{text}: not allowed by `{key}` of the managed policy ({self.line(*at)})",
            f"{hint + '; ' if hint else ''}for an exception ask {self.file.contact}",
        )

    def of_its_own(self, other: Managed) -> UsageError:
        """The error for a machine with this policy, to which somebody brings another policy."""
        return UsageError(
            f"this machine has a policy of its own ({self.path}), and the bundle brings another "
            f"one ({other.path})",
            f"one policy holds on a machine: leave one of them out, or ask {self.file.contact}",
        )

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Each key that the policy has, its value as JSON, and where it is written."""
        tables = toml_files.loads(self.text)
        for at, value in _leaves(tables, ()):
            yield shown(at), json_text.encode(value).decode(), self.line(*at)


def shown(at: Sequence[Key]) -> str:
    """Keys as people write them: `components[0].source`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in at).lstrip(".")


def _leaves(value: Any, at: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*at, key))
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for place, inner in enumerate(value):
            yield from _leaves(inner, (*at, place))
    else:
        yield at, value


def _user() -> str:
    import pwd

    number = os.getuid()  # not a variable such as USER, which is the user's to set
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


# -- reading ---------------------------------------------------------------------------------------


def read(path: str) -> Managed:
    """The policy in a file. Raises `UsageError`."""
    try:
        text = untrusted_files.read(real_path(path), _MOST)
    except guarded.UnguardedError as error:
        raise _unusable(f"the managed policy cannot be trusted: {error}") from None
    except OSError as error:
        why = error.strerror
        raise _unusable(f"cannot read the managed policy `{path}`: {why}") from None
    return parse(text, path)


def parse(content: bytes, path: str) -> Managed:
    """Reads the text of a policy; errors name it `path`. Raises `UsageError`."""
    where = f"managed policy {path}"
    text, tables = toml_files.read(content, where, _closed(""))
    try:
        file = toml_files.convert(tables, File, "the policy")
        _check(file)
        if file.audit is None and "audit-content" in tables:
            why = "`audit-content` means nothing without `audit`: nothing would be recorded"
            raise Mistake(why, "audit-content", hint="name the file as `audit`")
    except Mistake as mistake:
        contact = tables.get("contact")
        ask = contact if isinstance(contact, str) and contact else ""
        end = _closed(ask)
        if mistake.hint:
            asks = mistake.hint.endswith("?")
            end = f"{mistake.hint} {end[:1].upper()}{end[1:]}" if asks else f"{mistake.hint}; {end}"
        mistake.hint = ""
        raise mistake.placed(text, where, end) from None
    return Managed(file, text, path)


def _unusable(text: str) -> UsageError:
    return UsageError(text, _closed(""))


def _closed(contact: str) -> str:
    who = contact or "who administers this machine"
    return f"conductor runs nothing until that is mended: ask {who}"


# -- contradictions --------------------------------------------------------------------------------


def _check(file: File) -> None:
    """Raises `Mistake` for a rule that no administrator can mean."""
    if not file.contact.strip():
        raise Mistake("`contact` is empty: nobody would know who to ask", "contact")
    if file.agents is not None and not file.agents:
        raise Mistake("`agents` is empty, so that no chain could run", "agents",
                      hint="leave it out to allow every agent")  # fmt: skip
    for table in ("agents", "components", "required"):
        for at, entry in enumerate(getattr(file, table) or ()):
            _check_entry(entry, table, at)
    for at, entry in enumerate(file.components or ()):
        if entry.most is not None:
            _check_most(entry.most, "components", at, "most")
    _check_most(file.most, "most")
    _check_required(file)
    if file.audit is not None and not os.path.isabs(file.audit):
        raise Mistake("`audit` is an absolute path", "audit")
    if file.audit is not None and "{" in file.audit.replace("{user}", ""):
        raise Mistake("only `{user}` is replaced in `audit`", "audit")


def _check_entry(entry: Entry, table: str, at: int) -> None:
    if entry.source is entry.sha256 is entry.signer is None:
        raise Mistake("an entry names a `source`, a `sha256` or a `signer`", table, at)
    if entry.source is not None:
        _check_source(entry.source, table, at)
    if entry.signer is not None and not os.path.isabs(entry.signer):
        raise Mistake("`signer` is the absolute path of a public key", table, at, "signer")


def _check_source(source: str, table: str, at: int) -> None:
    place = (table, at, "source")
    kind, _, name = source.partition(":")
    if kind == BUNDLED:
        from conductor.spec import catalog

        manifest = catalog.bundled_manifest(name) if name else None
        if name and manifest is None:
            raise Mistake(f"no component `{visible_path(name)}` is bundled", *place)
        if manifest is not None and (manifest.kind == "agent") != (table == "agents"):
            raise Mistake(f"`{name}` is {'an agent' if table != 'agents' else 'no agent'}", *place)
        if not name and table == "agents":
            raise Mistake("a bundled agent is named: `bundled:demo`", *place)
        return
    from conductor.transports.remote import address as addresses

    if addresses.is_address(source):
        try:
            named = ",".join(map(str, addresses.parse_all(source, "/")))
        except UsageError as error:
            raise Mistake(f"`source`: {error.text}", *place, hint=error.hint) from None
        if named != source:
            raise Mistake("`source`: the address is not in its full form", *place, hint=named)
        return
    if not os.path.isabs(source):
        hint = "a bare name would be looked up on the PATH of the user"
        raise Mistake(
            "`source` is `bundled`, `bundled:NAME`, an address or an absolute path",
            *place,
            hint=hint,
        )
    try:
        scopes.compile_glob(source[1:])
    except ValueError as error:
        raise Mistake(f"`source`: {error}", *place) from None


def _check_most(most: Most, *at: Key) -> None:
    for key, reader in (("only", words.read), ("deny", words.read_denied)):
        for word in getattr(most, key) or ():
            try:
                reader([word])
            except ValueError as error:
                raise Mistake(str(error), *at, key, hint=hint_of(error)) from None
    for name, value in most.limits.items():
        try:
            limits.read(name, value)
        except ValueError as error:
            raise Mistake(f"`{name}`: {error}", *at, "limits", name, hint=hint_of(error)) from None


def _check_required(file: File) -> None:
    places: dict[str, int] = {}
    for at, entry in enumerate(file.required):
        here = ("required", at)
        source = entry.source or BUNDLED
        if source == BUNDLED or "*" in source or "?" in source:
            raise Mistake("a requirement names one component: `bundled:NAME` or a path", *here)
        if entry.args == ANY:
            raise Mistake("a requirement has exact arguments", *here, "args")
        if "bypass" in str(entry.options.get("on_failure", "")):
            text = "a required component cannot be bypassed"
            raise Mistake(text, *here, "options", "on_failure")
        if entry.place != "anywhere" and entry.place in places:
            text = f"two components cannot both be {entry.place}"
            raise Mistake(
                text, *here, "place", hint=f"the other one is required[{places[entry.place]}]"
            )
        places[entry.place] = at
        settings = entry.options.get("config")
        if isinstance(settings, str) and not os.path.isabs(settings):
            raise Mistake("`config` is an absolute path", *here, "options", "config")
