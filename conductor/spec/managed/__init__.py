"""The managed policy: what a machine's administrator lets conductors run (docs/configuration.md).

    file        the content of `policy.toml`; its strict reader
    identity    whether an entry of the policy is about a component
    signatures  detached signatures of components
    bounds      the most that a component may do and cost
    chain       a whole chain, or one component, held to the policy

`conductor agent` loads this module. The others are loaded only on a machine that has a policy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from conductor.spec.managed.file import Managed
    from conductor.spec.model import Spec

PLACE: Final = (
    "/Library/Application Support/conductor/policy.toml"
    if sys.platform == "darwin"
    else "/etc/conductor/policy.toml"
)
"""The place of the policy. A constant: no option, file or variable names another place."""

OWNERS: Final = frozenset({0})
"""The users who may own the policy, and the files that it names by their path."""


def real_path(path: str) -> str:
    """The absolute `path` without links, which nobody but the administrator can change.

    Raises `guarded.UnguardedError`, or `OSError` where there is no such file.
    """
    from conductor.spec import guarded

    return guarded.real(path, OWNERS)


_brought: list[Managed] = []
"""The policy of the bundle that a worker of a fleet runs; none: it brings none."""


def bring(managed: Managed | None) -> None:
    """From now on a worker's bundle brings this policy. Raises `UsageError` on a machine with
    another policy: then that one stays, and nothing changes."""
    before = [*_brought]
    _brought[:] = [managed] if managed is not None else []
    try:
        written()
    except BaseException:
        _brought[:] = before
        raise


def brought() -> Managed | None:
    """The policy that a bundle brings; None: none does."""
    return _brought[0] if _brought else None


def former() -> str:
    """The words about a chain that goes on as it was, since it cannot change as written: it is held
    to the policy of its start or last reload. Empty: the machine has no policy."""
    has_one = _brought or os.path.lexists(PLACE)
    return ", held to the managed policy as it was" if has_one else ""


def policy() -> Managed | None:
    """The policy that holds on this machine; None: there is none, or it only watches.

    Raises `UsageError` as `written` does.
    """
    managed = written()
    return None if managed is None or managed.only_watches else managed


def written() -> Managed | None:
    """The policy of this machine, or the policy of a bundle; None: there is none.

    Raises `UsageError` for a policy that cannot be read, is wrong or contradicts itself: then
    nothing runs.
    """
    try:
        os.lstat(PLACE)
    except FileNotFoundError:
        # A folder that is a link to nowhere, such as a mount that is missing, is not "no policy".
        if not os.path.islink(os.path.dirname(PLACE)):
            return _brought[0] if _brought else None
    except OSError:
        pass  # the path cannot be examined, so the reader reports it
    from conductor.spec.managed import file

    own = file.read(PLACE)
    if _brought and _brought[0].text != own.text:
        raise own.of_its_own(_brought[0])
    return own


def refuse_journal() -> None:
    """Raises `UsageError` where the policy lets nobody keep the messages of a chain, for a worker
    that writes them into the journal of its fleet."""
    managed = policy()
    if managed is not None and not managed.file.trace:
        raise managed.refusal("the journal of a fleet", "trace", hint="leave out `--journal`")
    if managed is not None and managed.file.content == "none":
        raise managed.refusal("the journal of a fleet", "content", hint="leave out `--journal`")


def required(specs: Sequence[Spec], *, agent_last: bool) -> list[Spec]:
    """The chain with the components that the policy requires, each in its place.

    Raises `UsageError` for a policy that cannot be used.
    """
    managed = policy()
    if managed is None:
        return list(specs)
    from conductor.spec.managed import chain

    return chain.completed(managed, specs, agent_last=agent_last)


def tried(spec: Spec, *, agent: bool = False) -> Spec:
    """A component that a tool runs by itself (`test`, `log replay`), held to the policy.

    `agent`: whether it is the agent of a chain, whatever its manifest says. Raises `UsageError`
    where the policy does not let it run.
    """
    managed = policy()
    if managed is None:
        return spec
    from conductor.spec.managed import chain

    return chain.held_alone(managed, spec, agent=agent)
