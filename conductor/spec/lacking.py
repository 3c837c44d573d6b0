"""What a component does not have of all that its manifest asks for, whatever the reason.

It may be a stranger's that nobody has agreed to; or options, a lock file or the managed policy give
it less. Either way it says so wherever a user looks, and one that fails closed does not run.

The start path loads this module: it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core.dialects import INITIALIZE
from conductor.core.policy.key_table import (
    EVENTS,
    KINDS,
    MCP_FAMILIES,
    PROMPT,
    SEEN,
    UPDATE,
    Direction,
    update,
)
from conductor.core.policy.rule_syntax import PolicyWords, parse_grant, parse_rule
from conductor.core.policy.rules import PROFILES, TRUSTED, Policy, lacking, permits, within
from conductor.core.service_table import ALWAYS_GRANTED
from conductor.errors import UsageError, one_line, visible_path
from conductor.spec import component_options, settings
from conductor.spec.model import Spec

if TYPE_CHECKING:
    from conductor.core.policy.policy_state import PolicyState
    from conductor.spec.python_guest.facts import Handled
    from conductor.spec.trust import Agreement

_LISTED: Final = 6
"""Things that a sentence names; it counts the rest."""
_LONGEST: Final = 60
"""Characters of a name that the author of a component has chosen."""


class Wish(msgspec.Struct, frozen=True):
    """What a component asks for beyond what it has."""

    profile: str = ""
    rights: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    services: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.profile or self.rights or self.grants or self.services)

    def agreed(self, held: Agreement | None) -> Wish:
        """The part of it that the user has agreed to."""
        if held is None:
            return Wish()
        return Wish(
            self.profile if self.profile == held.profile else "",
            tuple(rule for rule in self.rights if rule in held.rights),
            tuple(grant for grant in self.grants if grant in held.grants),
            tuple(service for service in self.services if service in held.services),
        )


# -- what a component has --------------------------------------------------------------------------


def covers(words: PolicyWords, wanted: str) -> bool:
    """Whether a policy allows all that the profile `wanted` would."""
    if wanted not in PROFILES or words.profile in (wanted, TRUSTED):
        return words.profile in (wanted, TRUSTED)
    return within(Policy(wanted), words.policy())


def allows(words: PolicyWords, rule: str) -> bool:
    """Whether a component may do what a rule (`up:session/update:carry`) says."""
    return rule in words.allow or permits(words.policy(), parse_rule(rule))


def gives(words: PolicyWords, grant: str) -> bool:
    """Whether a component has a named grant (`turns=within`)."""
    policy = words.policy()
    if policy is None:
        return True
    held = msgspec.structs.replace(policy.grants, turns=policy.turns)
    return not lacking(parse_grant(grant), held).names()


def serves(spec: Spec, service: str) -> bool:
    """Whether a component may use a service, by that grant or one that gives more."""
    if spec.grants is None or service in spec.grants or service in ALWAYS_GRANTED:
        return True
    name, colon, _ = service.partition(":")
    wider = [each for each in spec.grants if colon and each.startswith(f"{name}:")]
    if not wider:
        return False
    from conductor.services import scopes

    return any(scopes.covers(service, each) for each in wider)


# -- what it lacks ---------------------------------------------------------------------------------


def wanted(spec: Spec) -> Wish:
    """All that a component asks for."""
    if spec.manifest is None or not spec.manifest.wants:
        return Wish()
    wants = spec.manifest.wants
    listed = (tuple(sorted(table)) for table in (wants.rights, wants.grants, wants.services))
    return Wish(wants.profile or "", *listed)


def of(spec: Spec) -> Wish:
    """What a component asks for and does not have."""
    wish, words = wanted(spec), spec.policy
    if not wish:
        return wish
    return Wish(
        "" if not wish.profile or covers(words, wish.profile) else wish.profile,
        tuple(rule for rule in wish.rights if not allows(words, rule)),
        tuple(grant for grant in wish.grants if not gives(words, grant)),
        tuple(service for service in wish.services if not serves(spec, service)),
    )


def notes(spec: Spec) -> Iterator[str]:
    """Why a component does not do all that it is there for: it lacks what it asks for, or does
    nothing without a setting. Each is a sentence, with what to do on a line of its own."""
    if (lack := of(spec)) and not spec.asked:
        closed = "; it fails closed, so no chain starts with it" if _is_closed(spec) else ""
        yield f"it does not get {_listed(spec, lack)}{closed}\nhint: {_cure(spec, lack)}"
    if (text := settings.idle(spec)) is not None:
        yield text
    if (told := unheard(spec)) is not None:
        yield "\nhint: ".join(told)
    if spec.declared is not None and spec.declared.draws and not serves(spec, "random"):
        yield (
            f"`random` draws the same numbers in every run ({one_line(spec.declared.draws, 100)})\n"
            "hint: its author may take `await proxy.random.bytes(16)`, with the service `random`"
        )


# -- handlers that nothing reaches -----------------------------------------------------------------


def unheard(spec: Spec) -> tuple[str, str] | None:
    """The handlers of a Python source that neither its policy nor what it asks for brings any
    message, as a sentence and a hint; None: there are none."""
    handlers = spec.declared.handlers if spec.declared is not None else ()
    words = [spec.policy]
    if spec.manifest is not None and (wants := spec.manifest.wants):
        profile = wants.profile or spec.policy.profile
        words.append(PolicyWords(profile, tuple(wants.rights), wants.named))
    policies = [each.policy() for each in words]
    if None in policies:
        return None
    deaf = [one for one in handlers if not any(_arrives(each, one) for each in policies)]
    if not deaf:
        return None
    shown = [f"`{one_line(one.written, _LONGEST)}` ({one_line(one.place, 100)})" for one in deaf]
    more = [f"{len(shown) - _LISTED} more"] if len(shown) > _LISTED else []
    *first, last = [*shown[:_LISTED], *more]
    never = f"{', '.join(first)} and {last} never run" if first else f"{last} never runs"
    return (
        f"{never}: the profile {words[-1].profile} brings no such message",
        _enough(words[-1], deaf),
    )


def refuse_unheard(spec: Spec) -> None:
    """Raises `UsageError` for a component with a handler that no message reaches."""
    if (told := unheard(spec)) is not None:
        raise UsageError(f"`{spec.name}`: {told[0]}", told[1])


def _enough(words: PolicyWords, deaf: list[Handled]) -> str:
    """What to do about handlers that never run."""
    for profile in PROFILES:
        policy = msgspec.structs.replace(words, profile=profile).policy()
        if within(Policy(words.profile), policy) and all(_arrives(policy, one) for one in deaf):
            return (
                f"the profile {profile} brings them, or a rule below `[wants.rights]`; "
                "docs/security.md has the table"
            )
    return "no profile brings them: `[wants.rights]` and `[wants.grants]` name what does"


def _arrives(policy: Policy | None, handled: Handled) -> bool:
    """Whether a policy brings a handler any of its messages."""
    from conductor.core.policy.policy_state import PolicyState

    state, name = PolicyState(policy), handled.name
    match handled.decorator:
        case "request" | "notification" if name and name != INITIALIZE:
            own = name.startswith(MCP_FAMILIES) and state.policy.serves
            event = name in EVENTS and bool(state.policy.grants.editor)
            return own or event or any(_hears(state, side, name) for side in Direction)
        case "update":
            keys = (update(name),) if name else (UPDATE, *map(update, KINDS))
            return any(_hears(state, Direction.UP, key) for key in keys)
        case "opening":
            return _hears(state, Direction.DOWN, PROMPT)
        case "summarize" | "augment":
            return _hears(state, Direction.DOWN, f"_conversation/{handled.decorator}")
        case "tool" | "prompt" | "resource" | "resources":
            return not state.enforced or state.policy.serves
    return True


def _hears(state: PolicyState, side: Direction, key: str) -> bool:
    return bool(state.rights(side, key) & SEEN.value)


def check(spec: Spec) -> None:
    """Raises `UsageError` for a component that fails closed and lacks what it asks for: it would
    look like a guard that is on duty."""
    if not _is_closed(spec) or spec.asked or not (lack := of(spec)):
        return
    raise UsageError(
        f"`{spec.name}` does not get {_listed(spec, lack)}; it fails closed, so no chain starts "
        "without that",
        f"{_cure(spec, lack)}; `,fails=open` starts the chain without it",
    )


def _is_closed(spec: Spec) -> bool:
    return spec.policy.fails == "closed"


def _listed(spec: Spec, lack: Wish) -> str:
    things = [f"the profile {lack.profile} (it has {spec.policy.profile})"] if lack.profile else []
    things += [f"the right {_shown(rule)}" for rule in lack.rights]
    things += [_shown(word) for word in lack.grants]
    things += [f"the service {_shown(service)}" for service in lack.services]
    more = [f"{len(things) - _LISTED} more things"] if len(things) > _LISTED else []
    *first, last = [*things[:_LISTED], *more]
    return "what it asks for: " + (f"{', '.join(first)} and {last}" if first else last)


def _cure(spec: Spec, lack: Wish) -> str:
    """Which words give it what it lacks."""
    if spec.bundled is not None and spec.profile_chosen and not spec.denied:
        return f"leave out `profile={spec.policy.profile}`"
    denied = [each for each in lack.services if component_options.denies(spec.denied, each)]
    words = options(msgspec.structs.replace(lack, services=_without(lack.services, denied)))
    source = visible_path(spec.source)
    cures = [f"leave out `deny`, which takes {', '.join(map(_shown, denied))}"] if denied else []
    if words:
        place = f", in the place of `profile={spec.policy.profile}`" if spec.profile_chosen else ""
        cures.append(f"`{source}{one_line(words, 1000)}` grants that{place}")
    return "; ".join(cures)


def options(lack: Wish) -> str:
    """The options behind a component that give it what it lacks."""
    words = [f"profile={lack.profile}"] if lack.profile else []
    words += [f"allow={rule}" for rule in lack.rights]
    words += lack.grants
    words += [f"grant={service}" for service in lack.services]
    return "".join(f",{word}" for word in words)


def _without(services: Iterable[str], denied: Iterable[str]) -> tuple[str, ...]:
    return tuple(service for service in services if service not in denied)


def _shown(name: str) -> str:
    return one_line(name, _LONGEST)
