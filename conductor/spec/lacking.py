"""The rights that a manifest asks for and its component does not have, whatever the reason.

The component may be a stranger's that nobody has agreed to; or options, a lock file or the managed
policy give it less. Either way it says so wherever a user looks. A component that fails closed does
not run then.

The start path loads this module: it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from conductor.core import json_text
from conductor.core.dialects import INITIALIZE
from conductor.core.policy import words
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
from conductor.core.policy.rules import Policy
from conductor.errors import UsageError, one_line, visible_path
from conductor.spec import origins, settings
from conductor.spec.model import Spec
from conductor.spec.origins import COMMAND_LINE

if TYPE_CHECKING:
    from conductor.core.policy.policy_state import PolicyState
    from conductor.spec.python_guest.facts import Handled

_LISTED: Final = 6
"""Things that a sentence names; it counts the rest."""
_LONGEST: Final = 60
"""Characters of a name that the author of a component has chosen."""


# -- the lacking rights ----------------------------------------------------------------------------


def asked(spec: Spec) -> dict[str, str] | None:
    """The words that a component asks for, with its reasons; its settings fill the scopes."""
    if spec.manifest is None or spec.manifest.rights is None:
        return None
    values = {**spec.defaults, **spec.config}
    reasons = spec.manifest.rights.items()
    return {one: why for word, why in reasons for one in words.filled([word], values)}


def wanted(spec: Spec) -> tuple[str, ...]:
    """All rights that a component asks for."""
    return tuple(asked(spec) or ())


def of(spec: Spec) -> tuple[str, ...]:
    """The rights that a component asks for and does not have."""
    return words.lacking(wanted(spec), spec.policy.rights)


def notes(spec: Spec) -> Iterator[str]:
    """Why a component does not do all of its work: it lacks rights that it asks for, or does
    nothing without a setting. Each is a sentence, with a hint on a line of its own."""
    if (lack := of(spec)) and not spec.asked:
        closed = "; it fails closed, so no chain starts with it" if _is_closed(spec) else ""
        yield f"it does not get {_listed(lack)}{closed}\nhint: {_cure(spec, lack)}"
    if (text := settings.idle(spec)) is not None:
        yield text
    if (told := mistake(spec)) is not None:
        yield "\nhint: ".join(told)
    held = spec.policy.rights
    if spec.declared is not None and spec.declared.draws and words.lacking(["random"], held):
        yield (
            f"`random` draws the same numbers in every run ({one_line(spec.declared.draws, 100)})\n"
            "hint: its author may take `await proxy.random.bytes(16)`, with the right `random`"
        )


# -- mistakes in a Python source -------------------------------------------------------------------


def mistake(spec: Spec) -> tuple[str, str] | None:
    """An argument that `Proxy(…)` does not take, or handlers that nothing reaches, as a sentence
    and a hint; None: there is nothing of the kind."""
    name = spec.declared.strange if spec.declared is not None else ""
    if not name:
        return unheard(spec)
    from conductor.spec.python_guest.facts import PROXY_TAKES

    hint = f"it takes {', '.join(PROXY_TAKES)}"
    if name in words.FORMER_OPTIONS:
        hint = f'rights are written `rights={{"clock": "to say the time"}}`; {words.HINT}'
    return f"`Proxy(…)` takes no argument `{one_line(name, _LONGEST)}`", hint


def unheard(spec: Spec) -> tuple[str, str] | None:
    """The handlers of a Python source that get no message by its policy, nor by the rights that it
    asks for, as a sentence and a hint; None: there are none."""
    handlers = spec.declared.handlers if spec.declared is not None else ()
    held = (spec.policy.rights, (*spec.policy.rights, *wanted(spec)))
    policies = [words.policy(*each) for each in held]
    if None in policies:
        return None
    deaf = [one for one in handlers if not any(_arrives(each, one) for each in policies)]
    if not deaf:
        return None
    shown = [f"`{one_line(one.written, _LONGEST)}` ({one_line(one.place, 100)})" for one in deaf]
    more = [f"{len(shown) - _LISTED} more"] if len(shown) > _LISTED else []
    *first, last = [*shown[:_LISTED], *more]
    never = f"{', '.join(first)} and {last} never run" if first else f"{last} never runs"
    return f"{never}: its rights bring no such message", _enough(held[1], deaf)


def refuse_mistakes(spec: Spec) -> None:
    """Raises `UsageError` for a component with a mistake in its source."""
    if (told := mistake(spec)) is not None:
        raise UsageError(f"`{spec.name}`: {told[0]}", told[1])


def _enough(held: tuple[str, ...], deaf: list[Handled]) -> str:
    """A hint for handlers that never run."""
    seeing = (name for name in words.TABLE if name.startswith("see:") or name == "serve:tools")
    for name in seeing:
        if all(_arrives(words.policy(*held, name), one) for one in deaf):
            return f"the right `{name}` brings them: write it below `[rights]`, with a reason"
    return "`[rights]` holds the words that bring them; `conductor help rights` lists the words"


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
    return bool(state.rights(side, key) & SEEN)


def check(spec: Spec) -> None:
    """Raises `UsageError` for a component that fails closed and lacks a right that it asks for: it
    would look like a guard that is on duty."""
    if not _is_closed(spec) or spec.asked or not (lack := of(spec)):
        return
    raise UsageError(
        f"`{spec.name}` does not get {_listed(lack)}; it fails closed, so no chain starts "
        "without that",
        f"{_cure(spec, lack)}; `,fails=open` starts the chain without it",
    )


def _is_closed(spec: Spec) -> bool:
    return spec.policy.fails == "closed"


def _listed(lack: tuple[str, ...]) -> str:
    things = [f"`{one_line(name, _LONGEST)}`" for name in lack]
    more = [f"{len(things) - _LISTED} more rights"] if len(things) > _LISTED else []
    *first, last = [*things[:_LISTED], *more]
    return "what it asks for: " + (f"{', '.join(first)} and {last}" if first else last)


def _cure(spec: Spec, lack: tuple[str, ...]) -> str:
    """A hint with the words that give it the lacking rights."""
    denied = [name for name in lack if words.is_denied(name, spec.denied)]
    left = tuple(name for name in lack if name not in denied)
    if spec.bundled is not None and spec.chosen and not denied:
        by = origins.right(spec, spec.policy.rights[0]) if spec.policy.rights else COMMAND_LINE
        return f"leave out `only={'+'.join(spec.policy.rights)}` ({by})"
    who = origins.denials(spec)
    taking = [each for each in who if any(words.is_denied(name, [each]) for name in denied)]
    cures = [one_line(f"leave out `deny={each}` ({who[each]})", 200) for each in taking]
    if left:
        cures.append(f"`{visible_path(spec.source)}{one_line(options(left), 1000)}` allows that")
    return "; ".join(cures)


def options(lack: tuple[str, ...]) -> str:
    """The options behind a component that give it the lacking rights."""
    if any("," in name or "+" in name for name in lack):
        return f",allow={json_text.encode(list(lack)).decode()}"
    return f",allow={'+'.join(lack)}" if lack else ""
