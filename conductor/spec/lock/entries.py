"""What there is to lock of a chain: digests, arguments, powers. Reads files, runs nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from conductor.core.policy.key_table import ROWS, Direction, Right
from conductor.core.policy.rule_syntax import PolicyWords, shown
from conductor.core.policy.rules import PROFILES, TRUSTED, Grants, Rule, merged
from conductor.errors import UsageError
from conductor.spec import catalog, digests, untrusted_files
from conductor.spec.catalog import Spec
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.lock.values import ALL, Entry, File

_SCRIPTS: Final = (
    ".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".sh", ".bash", ".rb", ".pl",
    ".php", ".lua", ".jar", ".wasm", ".exe", ".cmd", ".bat", ".ps1",
)  # fmt: skip
"""Endings of arguments that are files with code; others are if they begin with `#!`."""


def entries(specs: Sequence[Spec], path: str, *, agent_last: bool, isolation: str) -> list[Entry]:
    """What there is to lock of a chain; `path`: of the lock file. Raises `UsageError`."""
    last = len(specs) - 1
    return [
        _entry(spec, "agent" if agent_last and at == last else "proxy", path, isolation)
        for at, spec in enumerate(specs)
    ]


def _entry(spec: Spec, role: Literal["proxy", "agent"], path: str, isolation: str) -> Entry:
    fields: dict[str, Any] = {"name": spec.name, "role": role, "timeout": spec.timeout}
    try:
        fields |= _identity(spec, os.path.dirname(path))
    except OSError as error:
        raise UsageError(
            f"cannot read {error.filename} of {spec.label(role)}: {error.strerror or error}",
            "a lock holds its digest: make it readable",
        ) from None
    fields["dialect"] = spec.dialect
    if role == "proxy":
        fields |= _powers(spec)
        if spec.config_file is not None:
            fields["config_file"] = _nearby(spec.config_file, os.path.dirname(path))
    if spec.sandboxed:
        fields |= {"isolation": isolation, "limits": {**DEFAULT_LIMITS, **spec.limits}}
    return Entry(**fields)


def _identity(spec: Spec, folder: str) -> dict[str, Any]:
    """What a component is. Raises `OSError`."""
    found: dict[str, Any] = {"source": spec.source}
    if spec.script:
        from conductor.spec.python_guest import scripts

        found |= {"kind": "script", "sha256": scripts.read(spec.script).sha256}
        found["source"] = shown_path(spec.source, folder)
    elif spec.wasm is not None:
        found |= {"kind": "module", "sha256": digests.of(spec.wasm)}
        if spec.bundled is None:
            found["source"] = shown_path(spec.source, folder)
    elif spec.command is None:
        found |= {"kind": "python", "sha256": digests.of(_code(spec))}
    else:
        found |= {"kind": "command"} | _command(spec, spec.command, folder)
    if spec.bundled is not None:
        manifest = catalog.manifest(spec.bundled)
        found |= {"kind": "bundled", "version": manifest.version if manifest else None}
    return found


def _command(spec: Spec, command: list[str], folder: str) -> dict[str, Any]:
    """A command: the program's own path and the interpreter of a bundled one differ by machine."""
    manifest = catalog.manifest(spec.bundled) if spec.bundled is not None else None
    args = command[1:] if manifest is None else command[len(manifest.command) :]
    found: dict[str, Any] = {"args": without_secrets(args)}
    if spec.variables:
        found["env"] = dict(sorted(without_secrets_in(spec.variables).items()))
    if spec.bundled is not None:
        return found | {"sha256": digests.of(_folder(spec.bundled))}
    found |= {"program": command[0], "sha256": digests.of(command[0])}
    files = [File(shown_path(one, folder), digests.of(one)) for one in _scripts(command)]
    return found | {"files": files}


def _powers(spec: Spec) -> dict[str, Any]:
    """What a proxy may do."""
    words = spec.policy
    found: dict[str, Any] = {
        "services": ALL if spec.grants is None else sorted(spec.grants),
        "profile": words.profile,
        "rights": rights(words),
        "grants": grants(words),
        "on_violation": words.on_violation,
        "on_failure": spec.on_failure,
    }
    if words.profile != TRUSTED:
        found |= {"fails": words.fails, "hold": words.hold}
    if spec.config:
        encoded = msgspec.json.encode(without_secrets_in(spec.config), order="sorted")
        found["config"] = encoded.decode()
    return found


def rights(words: PolicyWords) -> list[str]:
    """The rules of a policy as texts, one for each direction and key."""
    policy = words.policy()
    held: dict[tuple[Direction, str], Right] = {}
    for rule in (*map(_full, PROFILES[policy.profile]), *policy.extra) if policy else ():
        key = rule.direction, rule.key
        held[key] = held.get(key, Right.NONE) | rule.rights
    return [shown(Rule(way, key, right)) for (way, key), right in held.items()]


def _full(rule: Rule) -> Rule:
    """A profile's rule without what its rows give to single rules only."""
    most = Right.NONE
    for row in ROWS:
        if any(rule.covers(row.direction, key) for key in row.keys):
            most |= row.full
    return Rule(rule.direction, rule.key, rule.rights & most)


def grants(words: PolicyWords) -> list[str]:
    """What a policy grants by name, that of its profile included."""
    policy = words.policy()
    if policy is None:
        return []
    return merged(policy.grants, Grants(turns=policy.turns)).words()


def shown_path(path: str, folder: str) -> str:
    """How a path stands in a lock file in `folder`: relative to that, unless it was absolute."""
    if os.path.isabs(path):
        return path
    relative = os.path.relpath(os.path.realpath(path), os.path.realpath(folder or "."))
    relative = relative.replace(os.sep, "/")
    return relative if relative.startswith("../") else f"./{relative}"


def _nearby(path: str, folder: str) -> str:
    """An absolute path as it stands in a lock file: relative to it if it is below its folder."""
    below = os.path.relpath(path, os.path.abspath(folder or "."))
    return path if below.startswith("..") else f"./{below.replace(os.sep, '/')}"


def without_secrets(args: Sequence[str]) -> list[str]:
    """Arguments of a command as they may be written down."""
    found: list[str] = _clean({"args": list(args)})["args"]
    return found


def without_secrets_in(held: dict[str, Any]) -> dict[str, Any]:
    """Settings as they may be written down."""
    return _clean(held)


def _clean(held: dict[str, Any]) -> dict[str, Any]:
    from conductor.record.redaction import redacted

    # Nested once more: what a member of the outermost object is called counts as well.
    cleaned = msgspec.json.decode(redacted(msgspec.json.encode({"held": held})))
    found: dict[str, Any] = cleaned["held"]
    return found


def _folder(name: str) -> str:
    return os.path.join(catalog.folder(), name)


def _code(spec: Spec) -> str:
    """The file of the module that is run in this process. Raises `UsageError`."""
    from conductor.run import in_process

    assert spec.attribute is not None
    found = in_process.origin(spec.attribute.partition(":")[0])
    if found is None:
        raise UsageError(
            f"cannot find the file of `py:{spec.attribute}`, so it cannot be locked",
            "write py:MODULE:ATTRIBUTE, with a module that is a file and importable from here",
        )
    return found


def _scripts(command: Sequence[str]) -> list[str]:
    """The arguments that are files with code, each once; also modules of a nested conductor."""
    paths = (one.partition(",")[0] if ".wasm," in one else one for one in command[1:])
    return list(dict.fromkeys(one for one in paths if os.path.isfile(one) and _script(one)))


def _script(path: str) -> bool:
    if path.lower().endswith(_SCRIPTS):
        return True
    try:
        with untrusted_files.ordinary(path) as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def pins(spec: Spec, entry: Entry) -> dict[str, str]:
    """Where the digests of an entry belong. They have been compared with what is there."""
    assert entry.sha256 is not None
    if spec.command is None:
        return {_code(spec): entry.sha256}
    if spec.bundled is not None:
        return {_folder(spec.bundled): entry.sha256}
    scripts = dict(zip(_scripts(spec.command), (one.sha256 for one in entry.files), strict=True))
    return {spec.command[0]: entry.sha256, **scripts}
