"""The first line of a trace: it describes each component, so that a replay can run the chain
anew."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from conductor.core import json_text
from conductor.core.policy.policy_words import PolicyWords
from conductor.errors import ConductorError
from conductor.record.turns.line import FORMAT, Line, read_line
from conductor.spec import digests, secrets
from conductor.spec.model import Kind, Spec
from conductor.spec.plan import Plan
from conductor.spec.redaction import redacted


class ChainComponent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One component of a recorded chain."""

    name: str
    role: Literal["proxy", "agent"]
    kind: Kind
    source: str = ""
    """The user's word for it: a name, a path, a command. Nothing of a command's arguments."""
    sha256: str = ""
    """Of its module or its Python source; empty for all others."""
    dialect: str | None = None
    policy: PolicyWords = PolicyWords()
    config: dict[str, Any] = {}
    on_failure: str = "fail"


def described(plan: Plan, content: str) -> list[ChainComponent]:
    """The components of a chain. `content`: how much of messages the trace holds, `redacted` or
    `all`; the settings are shown by the same rule.

    Reads files, and runs nothing.
    """
    return [
        ChainComponent(
            name=spec.name,
            role=plan.role(spec),
            kind=spec.kind,
            source=spec.source,
            sha256=digest(spec),
            dialect=spec.dialect,
            policy=spec.policy,
            config=_config(spec, content),
            on_failure=spec.on_failure,
        )
        for spec in plan.components
    ]


def digest(spec: Spec) -> str:
    """The digest of the module or script that runs in the sandbox; empty for a program, and for a
    file that cannot be read."""
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


def header(
    content: str,
    components: Iterable[str],
    began: float,
    chain: Sequence[ChainComponent] = (),
    ring: Mapping[str, object] | None = None,
) -> Line:
    """The first line of a trace: of which components it is, in which process the chain runs, and
    when it began, in seconds of Unix time. `ring`: of which ring it is the file."""
    line: dict[str, object] = {
        "type": "_conductor",
        "format": FORMAT,
        "content": content,
        "components": list(components),
        "began": round(began, 6),
        "process": os.getpid(),
    }
    line |= {"chain": chain} if chain else {}
    line |= {"ring": ring} if ring is not None else {}
    raw = json_text.encode(line) + b"\n"
    head = read_line(raw)
    assert head is not None
    head.raw = raw
    return head
