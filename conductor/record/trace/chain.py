"""What the header of a trace says of each component, so that a replay can run the chain anew."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from conductor.core import json_text
from conductor.core.policy.words import PolicyWords
from conductor.errors import ConductorError
from conductor.spec import digests, secrets
from conductor.spec.model import Spec
from conductor.spec.plan import Plan
from conductor.spec.redaction import redacted


class ChainComponent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One component of a recorded chain."""

    name: str
    role: Literal["proxy", "agent"]
    kind: Literal["bundled", "installed", "module", "script", "program", "python", "remote"]
    source: str = ""
    """The user's word for it: a name, a path, a program. Nothing of a program's arguments."""
    sha256: str = ""
    """Of its module or its Python source; empty for a program."""
    dialect: str | None = None
    policy: PolicyWords = PolicyWords()
    config: dict[str, Any] = {}
    on_failure: str = "fail"


def described(plan: Plan, content: str) -> list[ChainComponent]:
    """The components of a chain. `content`: what the trace holds of messages, `redacted` or `all`;
    settings follow it.

    Reads files, and runs nothing.
    """
    return [
        ChainComponent(
            name=spec.name,
            role=plan.role(spec),
            kind=_kind(spec),
            source=spec.source,
            sha256=digest(spec),
            dialect=spec.dialect,
            policy=spec.policy,
            config=_config(spec, content),
            on_failure=spec.on_failure,
        )
        for spec in plan.components
    ]


def _kind(spec: Spec) -> Any:
    if spec.bundled is not None:
        return "bundled"
    if spec.receipt is not None:
        return "installed"
    if spec.sandboxed:
        return "script" if spec.script else "module"
    if spec.address is not None:
        return "remote"
    return "program" if spec.command is not None else "python"


def digest(spec: Spec) -> str:
    """The digest of what runs in the sandbox; empty for a program, and for what cannot be read."""
    try:
        if spec.script:
            from conductor.spec.python_guest import scripts

            return scripts.read(spec.script).sha256
        return digests.of(spec.wasm) if spec.wasm is not None else ""
    except (OSError, ConductorError):
        return ""


def _config(spec: Spec, content: str) -> dict[str, Any]:
    if not spec.config:
        return {}
    if content == "all":
        return spec.config
    # `redacted` does not look at the names of the outermost object.
    clean = redacted(json_text.encode({"config": spec.config}))
    kept = secrets.kept(json_text.decode(clean)["config"], spec.config)
    return kept if isinstance(kept, dict) else {}
