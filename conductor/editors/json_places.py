"""Places in settings in JSON: text is put there, and taken out again."""

from __future__ import annotations

from typing import Any

from conductor.editors import jsonc
from conductor.editors.jsonc import Seam, Slot, Value
from conductor.editors.record import Container, Settings


def is_empty(text: str, value: Value, container: Container) -> bool:
    """Whether a container of ours is empty, or one of the user's has only its former content."""
    inside, before = text[value.start + 1 : value.end - 1], container.was
    before = before[1:-1] if before[:1] in ("{", "[") else ""
    return not value.slots and inside.split() == before.split()


def without(text: str, root: Value | None, container: Container) -> str:
    assert root is not None
    if not container.keys:
        whole = Slot(root.start, root)
        return jsonc.take_out(text, None, whole, container.seam)
    slot = root.get(container.keys[0])
    assert slot is not None
    return jsonc.take_out(text, root, slot, container.seam)


def remember(settings: Settings, container: Container) -> None:
    others = [each for each in settings.containers if each.keys != container.keys]
    settings.containers = [*others, container]


def inserted(text: str, keys: tuple[str, ...], key: str | None, data: Any) -> tuple[str, Seam]:
    root = jsonc.parse(text)
    where = root.at(*keys) if root is not None else None
    assert where is not None
    return jsonc.insert(text, where, key, data)


def with_data(text: str, keys: tuple[str | int, ...], data: dict[str, Any]) -> str:
    """A text with other data in an object; members that are the same keep their text."""
    while True:
        root = jsonc.parse(text)
        value = root.at(*keys) if root is not None else None
        assert value is not None
        for slot in value.slots or ():
            if slot.key not in data:
                text = jsonc.cut(text, value, slot)
                break
        else:
            break
    for key, wanted in reversed(data.items()):
        root = jsonc.parse(text)
        value = root.at(*keys) if root is not None else None
        assert value is not None
        slot_ = value.get(key)
        if slot_ is None:
            text = jsonc.insert(text, value, key, wanted)[0]
        elif isinstance(wanted, dict) and slot_.value.is_object:
            text = with_data(text, (*keys, key), wanted)
        elif slot_.value.data != wanted:
            text = jsonc.replace(text, slot_.value, wanted)
    return text
