"""The projection of a component that a lock file pins. Reads files, runs nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.core.policy import words
from conductor.errors import UsageError
from conductor.spec import digests, paths, redaction, secrets, untrusted_files
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.lock.file import Entry, File
from conductor.spec.model import Spec
from conductor.spec.plan import Plan
from conductor.spec.programs import module_file

_SCRIPTS: Final = (
    ".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".sh", ".bash", ".rb", ".pl",
    ".php", ".lua", ".jar", ".wasm", ".exe", ".cmd", ".bat", ".ps1",
)  # fmt: skip
"""Endings of arguments that are files with code; other files are code if they begin with `#!`."""


def entries(plan: Plan, path: str = "") -> list[Entry]:
    """The entries of a chain in the lock file `path`. Raises `UsageError`."""
    return [_entry(spec, plan, path) for spec in plan.components]


def _entry(spec: Spec, plan: Plan, path: str) -> Entry:
    role = plan.role(spec)
    folder = os.path.dirname(path)
    fields: dict[str, Any] = {"name": spec.name, "role": role, "dialect": spec.dialect}
    try:
        fields |= _identity(spec, folder)
    except OSError as error:
        raise UsageError(
            f"cannot read {error.filename} of {spec.label(role)}: {error.strerror or error}",
            "a lock holds its digest: make it readable",
        ) from None
    if role == "proxy":
        fields |= _allowed(spec)
        if spec.config:
            # A reference shows nothing of its secret, and another reference is another setting.
            clean = secrets.kept(redacted(spec.config), spec.config)
            config = json_text.encode(clean, order="sorted")
            fields["config"] = config.decode()
        if spec.config_file is not None:
            fields["config_file"] = _nearby(spec.config_file, folder)
    if spec.sandboxed:
        fields |= {"isolation": plan.options.isolation, "limits": {**DEFAULT_LIMITS, **spec.limits}}
    return Entry(timeout=spec.timeout, on_failure=spec.on_failure, **fields)


def _identity(spec: Spec, folder: str) -> dict[str, Any]:
    """The identity of a component. Raises `OSError`."""
    fields: dict[str, Any] = {"source": spec.source, "kind": spec.kind}
    is_path = spec.bundled is None and spec.receipt is None  # else the source is a name
    if spec.receipt is not None and spec.receipt.signer is not None:
        fields["signer"] = str(spec.receipt.signer)
    if spec.script:
        from conductor.spec.python_guest import scripts

        fields["sha256"] = scripts.read(spec.script).sha256
        if is_path:
            fields["source"] = shown_path(spec.source, folder)
    elif spec.wasm is not None:
        fields["sha256"] = digests.of(spec.wasm)
        if is_path:
            fields["source"] = shown_path(spec.source, folder)
    elif spec.address is not None:
        pass  # nobody here can know the program behind an address: the address names it
    elif spec.command is None:
        fields["sha256"] = digests.of(_code(spec))
    else:
        fields |= _command(spec, spec.command, folder)
    if spec.bundled is not None:
        version = spec.manifest.version if spec.manifest is not None else None
        fields |= {"kind": "bundled", "version": version}
    return fields


def _command(spec: Spec, command: list[str], folder: str) -> dict[str, Any]:
    """A command: the program's own path and the interpreter of a bundled one differ by machine."""
    manifest = spec.manifest if spec.bundled is not None else None
    own = 1 if manifest is None else len(manifest.command)
    fields: dict[str, Any] = {"args": redacted(command[own:])}
    if spec.variables:
        references = {name: spec.variables[name] for name in spec.secrets}
        variables = {**redacted(spec.variables), **references}
        fields["env"] = dict(sorted(variables.items()))
    if spec.bundled is not None:
        return fields | {"sha256": digests.of(_folder(spec.bundled))}
    files = [File(shown_path(path, folder), digests.of(path)) for path in _scripts(command)]
    if spec.receipt is not None:  # the folder of an installation is no part of the identity
        home = os.path.dirname(spec.manifest_path)
        fields["args"] = [word.replace(home, "{dir}") for word in fields["args"]]
        files = [
            msgspec.structs.replace(file, path=file.path.replace(home, "{dir}")) for file in files
        ]
    return fields | {"program": command[0], "sha256": digests.of(command[0]), "files": files}


def _allowed(spec: Spec) -> dict[str, Any]:
    """The rights of a proxy."""
    policy = spec.policy
    policed = {"fails": policy.fails, "hold": policy.hold} if policy.enforced else {}
    return {
        "rights": list(policy.rights),
        "meaning": words.meaning(*policy.rights),
        "on_violation": policy.on_violation,
        "enforce": policy.enforce,
        **policed,
    }


def shown_path(path: str, folder: str) -> str:
    """A path as a lock file in `folder` has it: relative to `folder`, unless it was absolute."""
    if os.path.isabs(path):
        return path
    relative = os.path.relpath(os.path.realpath(path), os.path.realpath(folder or "."))
    relative = relative.replace(os.sep, "/")
    return relative if relative.startswith("../") else f"./{relative}"


def _nearby(path: str, folder: str) -> str:
    """An absolute path as a lock file has it: relative to the file's folder if it is below."""
    below = os.path.relpath(path, os.path.abspath(folder or "."))
    return path if below.startswith("..") else f"./{below.replace(os.sep, '/')}"


def redacted(value: Any) -> Any:
    """Arguments of a command (a list), variables or settings, as they may be written down."""
    # Redaction reads a list as arguments under the name `args` only, and it does not look at the
    # names of the outermost object: hence the two levels.
    is_list = isinstance(value, list)
    nested = {"nested": {"args": value} if is_list else value}
    clean = json_text.decode(redaction.redacted(json_text.encode(nested)))["nested"]
    return clean["args"] if is_list else clean


# -- the files of a component ----------------------------------------------------------------------


def _folder(name: str) -> str:
    return os.path.join(paths.components(), name)


def _code(spec: Spec) -> str:
    """The file of the module that is run in this process. Raises `UsageError`."""
    assert spec.attribute is not None
    file = module_file(spec.attribute.partition(":")[0])
    if file is None:
        raise UsageError(
            f"cannot find the file of `py:{spec.attribute}`, so it cannot be locked",
            "write py:MODULE:ATTRIBUTE, with a module that is a file and importable from here",
        )
    return file


def _scripts(command: Sequence[str]) -> list[str]:
    """The arguments that are files with code, each once; also modules of a nested conductor."""
    words = (word.partition(",")[0] if ".wasm," in word else word for word in command[1:])
    return list(dict.fromkeys(word for word in words if os.path.isfile(word) and _is_script(word)))


def _is_script(path: str) -> bool:
    if path.lower().endswith(_SCRIPTS):
        return True
    try:
        with untrusted_files.ordinary(path) as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def pinned(spec: Spec, entry: Entry, path: str) -> Spec:
    """The component with the digests of its entry in the lock file `path`.

    They have been compared, but the files may change until they are started.
    """
    if not entry.pinned or entry.sha256 is None:
        return spec
    pins: dict[str, Any]
    if spec.script:
        pins = {"script_sha256": entry.sha256}
    elif spec.wasm is not None:
        pins = {"sha256": entry.sha256}
    elif spec.command is None:
        pins = {"pins": {_code(spec): entry.sha256}}
    elif spec.bundled is not None:
        pins = {"pins": {_folder(spec.bundled): entry.sha256}}
    else:
        files = zip(_scripts(spec.command), entry.files, strict=True)
        scripts = {script: file.sha256 for script, file in files}
        pins = {"pins": {spec.command[0]: entry.sha256, **scripts}}
    return msgspec.structs.replace(spec, locked=path, **pins)
