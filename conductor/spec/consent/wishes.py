"""The rights that a component asks for beyond its own, and the user's agreements to them.

Only sandboxed components that do not come with conductor ask: a program has the user's rights
anyway. A decision in the user's options is no question: `only=` is the whole list, and a right
that `deny=` takes away stays away.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import msgspec

from conductor.core import json_text
from conductor.core.policy import words
from conductor.core.policy.words import TRUSTED
from conductor.errors import ConductorError, UsageError, visible_path
from conductor.spec import digests, lacking
from conductor.spec.consent.question import Question, is_shown, named, sentences
from conductor.spec.manifest.reading import Manifest
from conductor.spec.model import Spec
from conductor.spec.origins import CONSENT, MANIFEST, TRUSTED_FOLDER, layered
from conductor.spec.plan import Plan
from conductor.spec.trust import Agreement, Trust

MOST: Final = 32
"""Rights that a component may ask for at once: a question must stay readable."""


# -- the wish --------------------------------------------------------------------------------------


def missing(spec: Spec) -> tuple[str, ...]:
    """The rights that a component asks for, does not have, and may get from its user."""
    if not spec.sandboxed or spec.bundled is not None or spec.required or spec.chosen:
        return ()
    return tuple(name for name in lacking.of(spec) if not words.is_denied(name, spec.denied))


def granted(spec: Spec, wish: tuple[str, ...]) -> Spec:
    """The component with the rights that it asked for."""
    rights = tuple(dict.fromkeys((*spec.policy.rights, *wish)))
    return msgspec.structs.replace(spec, policy=msgspec.structs.replace(spec.policy, rights=rights))


def everything(plan: Plan) -> Plan:
    """The plan in which each component has all that it asks for."""
    return plan.of(
        [layered(spec, granted(spec, lacking.of(spec)), MANIFEST) for spec in plan.components]
    )


def agreed(wish: tuple[str, ...], held: Agreement | None) -> tuple[str, ...]:
    """The part of a wish that the user has agreed to, if the words still mean the same."""
    given = {} if held is None else held.rights
    return tuple(name for name in wish if given.get(name) == words.meaning(name))


def place_of(spec: Spec) -> str:
    """The file or folder of a component; empty if it has none."""
    return spec.script or spec.wasm or os.path.dirname(spec.manifest_path)


def digest(spec: Spec) -> str:
    """The digest of the code of a sandboxed component. Raises `OSError` or `ConductorError`."""
    if not spec.script:
        assert spec.wasm is not None
        return digests.of(spec.wasm)
    from conductor.spec.python_guest import scripts

    return scripts.read(spec.script).sha256


def key(digest: str, manifest: Manifest) -> str:
    """The key of an agreement. A changed file has another key. So has a changed manifest: its
    defaults of settings may decide how the file behaves."""
    return digests.of_bytes(json_text.encode([digest, manifest], order="sorted"))


# -- the agreements --------------------------------------------------------------------------------


class Settled(msgspec.Struct, frozen=True):
    """A component with everything that the user has agreed to."""

    spec: Spec
    question: Question | None = None
    """The question that the user may be asked about it."""
    why: str = ""
    """Why the user may not be asked about the rights that it lacks."""
    agreed: bool = False
    """It has more than the default rights, since the user agreed to more or trusts its folder."""


def _unreadable(wish: tuple[str, ...]) -> str:
    """Why a question cannot show all of a wish; empty if it can. The part cut off might be the
    part that counts: of a host it is the end."""
    if len(wish) > MOST:
        return f"it asks for more than {MOST} things at once"
    names = (words.word(name).scope for name in words.flat(wish) if name not in words.TABLE)
    long = next((name for name in names if not is_shown(name)), None)
    return "" if long is None else f"it asks for {named(long)}, which is too long to be shown"


Permit = Callable[[Spec], object]
"""Raises `UsageError` for a component that may do more than the policy of this machine allows."""


def settle(spec: Spec, kept: Kept, permit: Permit) -> Settled:
    """Gives a component the rights that the user has agreed to, and pins it to the agreed file."""
    wish = missing(spec)
    if not wish or spec.manifest is None:
        return Settled(spec)
    own = is_own(spec, kept.trust)
    if TRUSTED in wish and not own:
        wish = tuple(name for name in wish if name != TRUSTED)
        if not wish:
            return Settled(spec, why=f"only an option gives `{TRUSTED}`")
    if (why := _unreadable(wish)) and not own:
        return Settled(spec, why=why)
    after = granted(spec, wish)
    try:
        permit(after)
        if own:
            return Settled(layered(spec, after, TRUSTED_FOLDER), agreed=True)
        now = digest(spec)
    except UsageError as error:
        return Settled(spec, why=error.text)
    except (OSError, ConductorError):
        return Settled(spec, why="its file cannot be read")
    at = key(now, spec.manifest)
    part = agreed(wish, kept.agreement(at))
    if part == wish:
        return Settled(pinned(layered(spec, after, CONSENT), now), agreed=True)
    question = _question(spec, after, wish, at, now)
    if not part:
        return Settled(spec, question)
    given = layered(spec, granted(spec, part), CONSENT)
    return Settled(pinned(given, now), question, agreed=True)


class Kept(msgspec.Struct):
    """The user's agreements, in the store and until this conductor ends."""

    trust: Trust
    session: dict[str, Agreement] = {}
    """Agreements until this conductor ends, by their keys."""
    asked: set[str] | None = None
    """The keys that the user was asked about here; only they count among those in the store.
    None: all keys in the store count."""
    untrusted: int = 0
    """The number of the last `untrust` that was followed."""

    def end(self) -> None:
        """Removes the agreements of this run that the user has taken back."""
        new = [each for each in self.trust.untrusted if each.number > self.untrusted]
        self.session = {
            key: agreed
            for key, agreed in self.session.items()
            if not any(each.means(key, agreed) for each in new)
        }
        self.untrusted = max([self.untrusted, *(each.number for each in new)])

    def agreement(self, key: str) -> Agreement | None:
        """The user's agreement about one version of a component."""
        held = self.session.get(key)
        if held is None and (self.asked is None or key in self.asked):
            held = self.trust.agreed.get(key)
        return held


def is_own(spec: Spec, trust: Trust) -> bool:
    """Whether a component lies in a folder that is trusted, together with its manifest."""
    places = [place for place in (place_of(spec), spec.manifest_path) if place]
    return bool(places) and all(trust.folder_of(place) for place in places)


def pinned(spec: Spec, digest: str) -> Spec:
    """The component, which runs only if its file has this digest."""
    if spec.script:
        return msgspec.structs.replace(spec, script_sha256=digest, locked=digests.AGREED)
    return msgspec.structs.replace(spec, sha256=digest, locked=digests.AGREED)


def _question(spec: Spec, after: Spec, wish: tuple[str, ...], key: str, digest: str) -> Question:
    agreement = Agreement(
        since=0,
        name=spec.name,
        place=visible_path(place_of(spec)),
        sha256=digest,
        rights={name: words.meaning(name) for name in wish},
    )
    return Question(
        spec.name, spec.source, key, agreement, sentences(after, wish), spec.policy.rights
    )
