"""Editors that keep their agents in a JSON file, with or without comments."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from conductor.editors import jsonc, launcher
from conductor.editors.json_places import inserted, is_empty, remember, with_data, without
from conductor.editors.jsonc import Seam, Slot, SyntaxMistakeError, Value
from conductor.editors.record import Container, Kept, Settings
from conductor.editors.target import Edit, Launch, hint_of_ours
from conductor.errors import (
    ConductorError,
    UsageError,
    did_you_mean,
    json_text,
    one_line,
    visible_path,
)

_Keys: TypeAlias = tuple[str, str | int]
"""The keys that lead to an entry."""

_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}


class Shape(msgspec.Struct, frozen=True):
    """The form of an editor's entries."""

    read: Callable[[dict[str, Any]], Launch | None]
    """The launch of an entry; None if it has no command of its own."""
    write: Callable[[dict[str, Any], str, Launch], dict[str, Any]]
    """An entry with a launch, made from a present entry (or an empty one) and its name."""
    key: Callable[[str], str] = str
    """The key of a name in the file."""
    listed: bool = False
    """Whether entries are items of a list with an `id`; else members of an object."""
    no_command: str = ""
    """The meaning of an entry without a command, and the alternative for its user."""


class JsonEditor(msgspec.Struct, frozen=True, kw_only=True):
    """An editor with a JSON file; a `Target`."""

    name: str
    title: str
    place: Callable[[], str]
    where: str
    """The member of the file that holds the agents."""
    shape: Shape
    pick: str
    logs: str
    programs: tuple[str, ...] = ()
    bare: bool = True
    comments: bool = False
    """Whether the editor reads comments and trailing commas in its file."""
    fresh: dict[str, Any] = {}
    """The further content of a new file."""
    note: str = ""
    """A further sentence for its users."""

    def todo(self) -> str:
        """Nothing."""
        return ""

    def file(self) -> str:
        """Its file of settings."""
        return self.place()

    def key(self, name: str) -> str:
        """The key of an entry's name in the file and in the record."""
        return self.shape.key(name)

    # -- entries -----------------------------------------------------------------------------------

    def entries(self, text: str | None) -> dict[str, Launch | None]:
        """The launches of its entries, by name. Raises `UsageError`."""
        holder = self._holder(self._root(text or ""))
        found = {}
        for slot in (holder.slots if holder is not None else None) or ():
            data = slot.value.data
            name = _name(data) if self.shape.listed else slot.key
            if name:
                found[name] = self._read(data)
        return found

    def _read(self, data: Any) -> Launch | None:
        return self.shape.read(data) if isinstance(data, dict) else None

    def _root(self, text: str) -> Value | None:
        """The whole file; None if it holds nothing. Raises `UsageError`."""
        try:
            root = jsonc.parse(text)
        except SyntaxMistakeError as error:
            raise UsageError(
                f"{self.file()}:{error.line}:{error.column}: {error.why}; nothing was changed",
                f"correct it there, then run this again; `conductor setup {self.name} … --print` "
                "shows the text to write by hand",
            ) from None
        if root is not None and not root.is_object:
            raise self._unexpected(text, root, "the file holds", dict)
        return root

    def _holder(self, root: Value | None) -> Value | None:
        """The object or list of the agents; None if there is none. Raises `UsageError`."""
        slot = root.get(self.where) if root is not None else None
        return None if slot is None or slot.value.data is None else slot.value

    def _checked_holder(self, text: str, root: Value | None) -> Value | None:
        holder = self._holder(root)
        wanted = list if self.shape.listed else dict
        if holder is not None and not isinstance(holder.data, wanted):
            raise self._unexpected(text, holder, f"`{self.where}` is", wanted)
        return holder

    def _unexpected(self, text: str, value: Value, what: str, wanted: type) -> UsageError:
        line, column = jsonc.place(text, value.start)
        kind = _NAMES.get(type(value.data), "a number")
        return UsageError(
            f"{self.file()}:{line}:{column}: {what} {kind}, and {self.title} wants "
            f"{_NAMES[wanted]}; nothing was changed",
            f"correct it there; `conductor setup {self.name} … --print` shows the text to write",
        )

    def _found(self, holder: Value | None, name: str) -> Slot | None:
        """The entry with a name; of several entries the last one, which counts."""
        key = self.key(name)
        found = None
        for slot in (holder.slots if holder is not None else None) or ():
            if self.shape.listed:
                data = slot.value.data
                is_it = isinstance(data, dict) and (
                    data.get("id") in (key, name) or data.get("name") == name
                )
            else:
                is_it = self.shape.key(slot.key) == key
            found = slot if is_it else found
        return found

    # -- adding ------------------------------------------------------------------------------------

    def put(self, text: str | None, settings: Settings, name: str, launch: Launch) -> Edit:
        """An entry added, or brought up to date. Raises `UsageError`."""
        before = text or ""
        holder = self._checked_holder(before, self._root(before))
        slot = self._found(holder, name)
        if slot is None:
            return self._added(text, settings, name, launch)
        present = self._read(slot.value.data)
        kept = settings.entries.get(self.key(name))
        if present is None or not launcher.starts_conductor(present.words):
            raise UsageError(
                f"{self._at(before, slot)}: there is an entry `{name}`, and it is not the "
                "conductor's; nothing was changed",
                "`--name` gives ours another name; "
                f"`--wrap {_typed(name)}` puts the conductor in front of its command",
            )
        if kept is not None and kept.wraps:
            raise UsageError(
                f"`{name}` is an entry that the conductor wraps; nothing was changed",
                f"`conductor setup {self.name} COMPONENT… --wrap {_typed(name)}` wraps it in "
                f"others, `conductor setup {self.name} --remove --name {_typed(name)}` gives it "
                "back; `--name` adds another entry",
            )
        was = before[slot.value.start : slot.value.end]
        # Settings of the user beside ours stay, and so do variables.
        wanted = Launch(launch.command, launch.args, {**present.env, **launch.env})
        return self._changed(text, settings, name, slot, wanted, Kept("", was=was))

    def wrap(self, text: str | None, settings: Settings, name: str, front: Launch) -> Edit:
        """A conductor in front of the command of an entry that is there. Raises `UsageError`."""
        before = text or ""
        holder = self._checked_holder(before, self._root(before))
        slot = self._found(holder, name)
        if slot is None:
            known = self.entries(text)
            listed = ", ".join(f"`{each}`" for each in known) or "none"
            raise UsageError(
                f"{self.title} has no entry `{name}` in {self.file()}",
                did_you_mean(name, known, f"there are: {one_line(listed)}", prefix="--wrap "),
            )
        present = self._read(slot.value.data)
        if present is None:
            raise UsageError(
                f"{self._at(before, slot)}: `{name}` has no command that the conductor could stand "
                "in front of",
                self.shape.no_command,
            )
        kept = settings.entries.get(self.key(name))
        if kept is not None and kept.wraps:
            present = self._behind(kept, present, name)
        elif launcher.starts_conductor(present.words):
            raise UsageError(
                f"`{name}` already starts a conductor; nothing was changed",
                f"`conductor setup {self.name} COMPONENT… AGENT --name {_typed(name)}` changes its "
                "chain",
            )
        was = before[slot.value.start : slot.value.end]
        env = {**present.env, **front.env}
        wanted = Launch(front.command, [*front.args, "--", *present.words], env)
        return self._changed(text, settings, name, slot, wanted, Kept("", was=was, wraps=True))

    def _behind(self, kept: Kept, present: Launch, name: str) -> Launch:
        """The command of a wrapped entry without our words. Raises `UsageError`."""
        written = self._launch(kept.written)
        front = _front(written)
        if present.words[: len(front)] != front or len(present.words) == len(front):
            raise UsageError(
                f"somebody has changed the command of `{name}` since the conductor was put in "
                "front of it",
                f"`conductor setup {self.name} --remove --name {_typed(name)}` takes out the rest",
            )
        rest = present.words[len(front) :]
        return Launch(rest[0], rest[1:], present.env)

    def _launch(self, entry: str) -> Launch:
        """The launch in the text of an entry, which was read once before."""
        value = jsonc.parse(entry)
        launch = self._read(value.data) if value is not None else None
        return launch if launch is not None else Launch("")

    def _changed(
        self,
        text: str | None,
        settings: Settings,
        name: str,
        slot: Slot,
        wanted: Launch,
        kept: Kept,
    ) -> Edit:
        """An entry that is there with another launch; its other members stay as they are."""
        before = text or ""
        self._refuse_what_json_cannot_say(wanted)
        data = self.shape.write(slot.value.data, name, wanted)
        keys = self._keys(before, name)
        after = with_data(before, keys, data)
        root = jsonc.parse(after)
        value = root.at(*keys) if root is not None else None
        assert value is not None
        self._check(before, after, keys, data)
        known = settings.entries.get(self.key(name))
        written = after[value.start : value.end]
        fresh = copy.deepcopy(settings)
        if known is not None and known.wraps != kept.wraps:
            known = None  # our entry is gone: an entry of the user's took its place
        if known is not None:  # the text before the first change counts
            kept = msgspec.structs.replace(known, written=written)
        else:
            kept = msgspec.structs.replace(kept, written=written)
        if known is not None or after != before:
            fresh.entries[self.key(name)] = kept
        return Edit(after, fresh, wanted, self._remarks(after))

    def _keys(self, text: str, name: str) -> _Keys:
        """The keys that lead to an entry of the file."""
        holder = self._holder(self._root(text))
        slot = self._found(holder, name)
        assert holder is not None
        assert holder.slots is not None
        assert slot is not None
        at = next(index for index, each in enumerate(holder.slots) if each is slot)
        return (self.where, at if self.shape.listed else slot.key)

    def _added(self, text: str | None, settings: Settings, name: str, launch: Launch) -> Edit:
        self._refuse_what_json_cannot_say(launch)
        after = text or ""
        live = self._live(after, settings)
        # Without any of ours somebody has made the file anew, and all in it is theirs.
        fresh = copy.deepcopy(settings) if live else Settings(self.name)
        fresh.entries = live
        if jsonc.parse(after) is None:
            after, seam = jsonc.insert(after, None, None, {})
            remember(fresh, Container((), seam))
            for member, each in reversed(self.fresh.items()):
                after = inserted(after, (), member, each)[0]
        root = jsonc.parse(after)
        assert root is not None
        slot = root.get(self.where)
        empty: Any = [] if self.shape.listed else {}
        if slot is None:
            after, seam = inserted(after, (), self.where, empty)
            remember(fresh, Container((self.where,), seam))
        elif not slot.value.data:
            was = after[slot.value.start : slot.value.end]
            if slot.value.data is None:
                after = jsonc.replace(after, slot.value, empty)
            remember(fresh, Container((self.where,), Seam("", ""), was))
        data = self.shape.write({}, name, launch)
        key = None if self.shape.listed else self.key(name)
        after, seam = inserted(after, (self.where,), key, data)
        keys: _Keys = (self.where, 0 if key is None else key)
        root = jsonc.parse(after)
        value = root.at(*keys) if root is not None else None
        assert value is not None
        self._check(text or "", after, keys, data, added=True)
        written = after[value.start : value.end]
        fresh.entries[self.key(name)] = Kept(written, seam)
        return Edit(after, fresh, launch, self._remarks(after))

    def _refuse_what_json_cannot_say(self, launch: Launch) -> None:
        """Raises `UsageError` for a path that is not UTF-8: many editors would then read nothing of
        the whole file."""
        for word in (*launch.words, *launch.env.values()):
            if jsonc.HALF.search(word):
                raise UsageError(
                    f"`{visible_path(word)}` is not UTF-8, and {self.title}'s settings are",
                    "give the file or the folder another name, or name a link to it",
                )

    def _remarks(self, text: str) -> tuple[str, ...]:
        if self.comments:
            return ()
        at = jsonc.beyond_json(text)
        if at < 0:
            return ()
        line, column = jsonc.place(text, at)
        remark = (
            f"{self.title} reads plain JSON, and its file has more ({line}:{column}: a comment, or "
            "a comma before a bracket): if it does not list the agent, take that out"
        )
        return (remark,)

    def _check(
        self,
        before: str,
        after: str,
        keys: _Keys,
        data: Any,
        *,
        added: bool = False,
    ) -> None:
        """Reads an edited text back: only the intended part may have changed."""
        old, new = jsonc.parse(before), jsonc.parse(after)
        expected: Any = copy.deepcopy(old.data if old is not None else self.fresh)
        where, key = keys
        holder = expected.get(where)
        if holder is None:
            holder = expected[where] = [] if self.shape.listed else {}
        if added and self.shape.listed:
            holder.insert(0, data)
        else:
            holder[key] = data
        if new is None or new.data != expected:
            raise ConductorError(
                f"{self.file()} cannot be edited: its text reads back otherwise than intended; "
                "nothing was changed",
                f"`conductor setup {self.name} … --print` shows the text to write by hand; please "
                "report the file as a bug of conductor",
            )

    # -- removing ----------------------------------------------------------------------------------

    def remove(self, text: str | None, settings: Settings, name: str) -> Edit:
        """An entry taken out, or given back as it was. Raises `UsageError`."""
        key = self.key(name)
        kept = settings.entries.get(key)
        before = text or ""
        root = self._root(before)
        slot = self._found(self._checked_holder(before, root), name)
        if kept is None:
            raise self._unknown(before, settings, name, slot)
        fresh = copy.deepcopy(settings)
        del fresh.entries[key]
        if slot is None:
            remark = f"`{name}` was not in {self.title}'s settings any more"
            return self._tidied(text, fresh, (remark,))
        if kept.was:
            return self._given_back(before, fresh, name, kept)
        present = self._read(slot.value.data)
        if present is None or not launcher.starts_conductor(present.words):
            remark = f"somebody has changed `{name}` since: it has nothing of ours, and stays"
            return Edit(before, fresh, None, (remark,))
        holder = self._holder(root)
        assert holder is not None
        remarks = []
        if before[slot.value.start : slot.value.end] != kept.written:
            remarks.append("somebody had changed the entry since, and all of it is gone")
        after = jsonc.take_out(before, holder, slot, kept.seam or Seam("", ""))
        return self._tidied(after, fresh, tuple(remarks))

    def _unknown(self, text: str, settings: Settings, name: str, slot: Slot | None) -> UsageError:
        if slot is not None:
            return UsageError(
                f"{self._at(text, slot)}: `setup` has no record that it made or changed the entry "
                f"`{name}`; nothing was changed",
                "take it out there by hand",
            )
        return UsageError(
            f"`setup` has added no entry `{name}` to {self.title}'s settings",
            hint_of_ours(name, settings.entries),
        )

    def _given_back(self, text: str, settings: Settings, name: str, kept: Kept) -> Edit:
        """An entry that was there before, as it was, or without our words if it was changed."""
        keys = self._keys(text, name)
        root = jsonc.parse(text)
        value = root.at(*keys) if root is not None else None
        assert value is not None
        if text[value.start : value.end] == kept.written:
            after = text[: value.start] + kept.was + text[value.end :]
            return Edit(after, settings, None, (f"`{name}` is as it was before",))
        present, original = self._read(value.data), self._launch(kept.was)
        written = self._launch(kept.written)
        if present is None or present.command != written.command:
            remark = f"somebody has changed `{name}` since: it has nothing of ours, and stays"
            return Edit(text, settings, None, (remark,))
        front = _front(written)
        rest = present.words[len(front) :]
        if kept.wraps and rest and present.words[: len(front)] == front:
            back = Launch(rest[0], rest[1:], present.env)
        else:
            back = Launch(original.command, original.args, present.env)
        data = self.shape.write(value.data, name, back)
        was, ours = jsonc.parse(kept.was), jsonc.parse(kept.written)
        if was is not None and ours is not None:
            # Members that the entry did not have before go, unless somebody has changed them.
            data = {
                key: each
                for key, each in data.items()
                if key in was.data or (each and each != ours.data.get(key))
            }
        after = with_data(text, keys, data)
        remark = f"somebody has changed `{name}` since: only our words were taken out of it"
        return Edit(after, settings, None, (remark,))

    def _tidied(self, text: str | None, settings: Settings, remarks: tuple[str, ...]) -> Edit:
        """Removes containers that `setup` has made for its entries, once they are empty."""
        if text is None:
            return Edit(None, settings, None, remarks)
        for container in sorted(settings.containers, key=lambda each: -len(each.keys)):
            root = jsonc.parse(text)
            value = root.at(*container.keys) if root is not None else None
            if value is None or self._live(text, settings):
                continue
            whole = text[value.start : value.end]
            is_fresh = self.fresh and value.data == self.fresh and jsonc.beyond_json(whole) < 0
            if not is_fresh and not is_empty(text, value, container):
                continue
            if container.was:
                text = text[: value.start] + container.was + text[value.end :]
            else:
                text = without(text, root, container)
        self._root(text)  # the written text must be readable
        return Edit(text, settings, None, remarks)

    def _live(self, text: str, settings: Settings) -> dict[str, Kept]:
        """The entries of the record that are still in the file."""
        holder = self._holder(self._root(text))
        entries = settings.entries.items()
        return {name: kept for name, kept in entries if self._found(holder, name) is not None}

    # -- showing -----------------------------------------------------------------------------------

    def shown(self, name: str, launch: Launch, *, wraps: bool) -> str:
        """The entry that a user would write into the settings by hand."""
        data = self.shape.write({}, name, launch)
        holder: Any = [data] if self.shape.listed else {self.key(name): data}
        whole = {**self.fresh, self.where: holder}
        return json_text(json.dumps(whole, indent=2, ensure_ascii=False))

    def _at(self, text: str, slot: Slot) -> str:
        line, column = jsonc.place(text, slot.start)
        return f"{self.file()}:{line}:{column}"


def _typed(name: str) -> str:
    """The name of an entry, as the user types it in a shell."""
    return shlex.quote(one_line(name))


def _name(data: Any) -> str:
    """The name of an item of a list."""
    name = data.get("id") if isinstance(data, dict) else None
    return name if isinstance(name, str) else ""


def _front(launch: Launch) -> list[str]:
    """The words of a wrapped entry up to the entry's own command."""
    words = launch.words
    return words[: words.index("--") + 1] if "--" in words else words
