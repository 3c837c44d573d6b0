"""The file of `conductor exec --editor`: what an editor can, and what its user does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Self

import pydantic

from conductor.errors import UsageError, did_you_mean

_HINT: Final = "`{}` is an editor that shows everything; docs/editor.md has an example"
Name = Annotated[str, pydantic.Field(min_length=1)]


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)


class Capabilities(_Part):
    """What the editor says it can show."""

    html_panel: bool = True
    file_comment: bool = True
    ide_operation: bool = True
    log: bool = True


class Operation(_Part):
    """An operation of the editor, and what it always comes to."""

    category: str = ""
    description: str = ""
    inputSchema: dict[str, Any] = {}  # noqa: N815 - the wire's name
    result: Any = None
    error: str | None = None
    """It fails, with this message."""


class Action(_Part):
    """What the user does with a panel or a comment, once that is shown."""

    panel: Name | None = None
    comment: Name | None = None
    event: Name | None = None
    data: Any = None
    reply: str | None = None

    @pydantic.model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.panel is None) == (self.comment is None):
            raise ValueError("the user does it to a `panel` or to a `comment`: name one")
        if (self.event is None) == (self.reply is None):
            raise ValueError("it is an `event` or a `reply`: name one")
        if self.reply is not None and self.comment is None:
            raise ValueError("a panel takes no `reply`, only an `event`")
        return self

    @property
    def words(self) -> str:
        """What the user does, for people."""
        what = f"panel `{self.panel}`" if self.panel is not None else f"comment `{self.comment}`"
        return f"`{self.event}` on {what}" if self.reply is None else f"reply to {what}"


class Fixture(_Part):
    """An editor, and its user."""

    capabilities: Capabilities = Capabilities()
    operations: dict[str, Operation] = {}
    user: list[Action] = []


def read(path: str) -> Fixture:
    """The fixture in a file. Raises `UsageError`."""
    try:
        return Fixture.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        why = f"{error.strerror or error}"
        raise UsageError(f"`--editor {path}` cannot be read: {why}", _HINT) from None
    except pydantic.ValidationError as refused:
        first = refused.errors(include_url=False, include_input=False)[0]
    at = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        keys = _keys(at[:-1])
        hint = did_you_mean(at[-1], keys, f"keys are: {', '.join(keys)}")
        raise UsageError(f"`--editor {path}`: there is no `{'.'.join(at)}`", hint)
    text = first["msg"].removeprefix("Value error, ")
    where = f" at `{'.'.join(at)}`" if at else ""
    raise UsageError(f"`--editor {path}`{where}: {text}", _HINT)


def _keys(at: list[str]) -> list[str]:
    """The keys of the part of a file that stands there."""
    parts: dict[str, type[_Part]] = {
        "capabilities": Capabilities, "operations": Operation, "user": Action
    }  # fmt: skip
    return list((parts[at[0]] if at else Fixture).model_fields)
