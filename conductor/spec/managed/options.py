"""The options of a chain, held to the managed policy (docs/configuration.md).

Loaded only on a machine that has a policy.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from conductor.core import Violated
from conductor.errors import UsageError
from conductor.mcp import ON_CHANGE
from conductor.spec.managed import chain
from conductor.spec.managed.file import CONTENTS, Managed
from conductor.spec.options import Options
from conductor.spec.plan import Plan


def applied(managed: Managed, options: Options) -> Options:
    """The options of a chain, with the demands of the policy. Raises `UsageError` for options that
    contradict it; the error names who set them."""
    rules, given = managed.file, options.audit

    def by(option: str) -> str:
        return f" ({options.set_by[option]})" if option in options.set_by else ""

    if managed.audit is not None and given is not None and os.path.abspath(given) != managed.audit:
        hint = f"leave out `audit`: the chain is recorded in {managed.audit}"
        raise managed.refusal(f"an audit in `{given}`{by('audit')}", "audit", hint=hint)
    if options.trace is not None and not rules.trace:
        raise managed.refusal(f"a trace{by('trace')}", "trace", hint="leave out `trace`")
    if options.sends and not rules.trace:
        raise managed.refusal(
            f"spans for a collector{by('otlp')}", "trace", hint="leave out `otlp`"
        )
    records = options.trace or options.sends or (given if managed.audit is None else None)
    content = options.trace_content
    if records and CONTENTS.index(content) > CONTENTS.index(rules.content):
        hint = f"use -c trace-content={rules.content}"
        text = f"a record with `{content}` of each message{by('trace_content')}"
        raise managed.refusal(text, "content", hint=hint)
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
        pin_mcp=options.pin_mcp or rules.pin_mcp,
        changed_tools=max(options.changed_tools, rules.changed_tools, key=ON_CHANGE.index),
        control=options.control if rules.control else "off",
    )


def obliged(managed: Managed, options: Options) -> Options:
    """The options with the demands of the policy, such as its audit: before anything is opened.

    Raises `UsageError` for options that the policy forbids.
    """
    if managed.only_watches:
        changed = msgspec.structs.replace(options, audit=options.audit or managed.audit)
    else:
        changed = applied(managed, options)
    names = Options.__struct_fields__
    other = (name for name in names if getattr(options, name) != getattr(changed, name))
    by = {name: managed.line(name.replace("_", "-")) for name in other}
    return msgspec.structs.replace(changed, set_by={**options.set_by, **by})


def watched(managed: Managed, plan: Plan) -> list[Violated]:
    """The refusals that a watching policy would have made of a chain."""
    specs = plan.components
    found = list(chain.watched(managed, specs, agent_last=plan.agent_last))
    try:
        applied(managed, plan.options)
    except UsageError as error:
        found.append((specs[-1], error))
    return [
        Violated(spec.name, RULE, "", "", "", error.text, fatal=False, would=True)
        for spec, error in found
    ]


RULE: Final = "managed"
"""The rule of a would-be refusal of the managed policy."""


def held(managed: Managed, plan: Plan) -> Plan:
    """The plan with its options as the policy allows them. Raises `UsageError`."""
    if managed.audit is not None and not plan.options.audit_rule:
        raise managed.refusal("a chain that is not recorded", "audit")
    options = applied(managed, plan.options)
    if managed.file.require_hardening and options.isolation == "inline":
        text = f"guests in the conductor's process ({plan.origin('isolation')})"
        raise managed.refusal(text, "require-hardening", hint="leave out `isolation`")
    return msgspec.structs.replace(plan, options=options)
