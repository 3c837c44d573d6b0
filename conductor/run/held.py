"""A chain held to the managed policy, just before it is started (docs/configuration.md).

Loaded only on a machine that has a policy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from conductor.core import Violated
from conductor.errors import UsageError
from conductor.spec.managed import chain
from conductor.spec.managed.file import CONTENTS, Managed
from conductor.spec.model import Spec
from conductor.spec.options import Options


def applied(managed: Managed, options: Options) -> Options:
    """The options of a chain, with what the policy demands. Raises `UsageError` for others."""
    rules, given = managed.file, options.audit
    if managed.audit is not None and given is not None and os.path.abspath(given) != managed.audit:
        hint = f"leave out --audit: the chain is recorded in {managed.audit}"
        raise managed.refusal(f"an audit in `{given}`", "audit", hint=hint)
    if options.trace is not None and not rules.trace:
        raise managed.refusal("a trace", "trace", hint="leave out --trace")
    if options.sends and not rules.trace:
        raise managed.refusal("spans for a collector", "trace", hint="leave out `otlp`")
    records = options.trace or options.sends or (given if managed.audit is None else None)
    content = options.trace_content
    if records and CONTENTS.index(content) > CONTENTS.index(rules.content):
        hint = f"use -c trace-content={rules.content}"
        raise managed.refusal(f"a record with `{content}` of each message", "content", hint=hint)
    if not rules.trace:
        options = msgspec.structs.replace(options, ring=0)
    elif not records and CONTENTS.index(content) > CONTENTS.index(rules.content):
        # Nobody has asked for the ring, so it is no reason to refuse the chain.
        options = msgspec.structs.replace(options, trace_content=rules.content)
    if managed.audit is not None:
        where = f"`audit` of the managed policy ({managed.line('audit')})"
        rule = f"{where} requires it; ask {rules.contact}"
        options = msgspec.structs.replace(
            options, audit=managed.audit, audit_content=rules.audit_content, audit_rule=rule
        )
    return msgspec.structs.replace(
        options,
        require_sandbox=options.require_sandbox or rules.require_sandbox,
        require_hardening=options.require_hardening or rules.require_hardening,
        control=options.control if rules.control else "off",
    )


def watched(
    managed: Managed, specs: Sequence[Spec], options: Options, *, agent_last: bool
) -> list[Violated]:
    """What a policy that only watches would have refused of a chain."""
    found = list(chain.watched(managed, specs, agent_last=agent_last))
    try:
        applied(managed, options)
    except UsageError as error:
        found.append((specs[-1], error))
    return [
        Violated(spec.name, RULE, "", "", "", error.text, fatal=False, would=True)
        for spec, error in found
    ]


RULE: Final = "managed"
"""The rule of what the managed policy would have refused."""


def held(
    managed: Managed, specs: Sequence[Spec], options: Options, *, agent_last: bool
) -> tuple[list[Spec], Options]:
    """The chain and its options as the policy allows them. Raises `UsageError`."""
    if managed.audit is not None and not options.audit_rule:
        raise managed.refusal("a chain that is not recorded", "audit")
    options = applied(managed, options)
    if managed.file.require_hardening and options.isolation == "inline":
        hint = "leave out `-c isolation=inline`"
        raise managed.refusal("guests in the conductor's process", "require-hardening", hint=hint)
    return chain.held(managed, specs, agent_last=agent_last), options
