"""MCP resources: contents at addresses, and templates of addresses."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from .content import contents, jsonable
from .parameters import Parameters
from .records import plain

if TYPE_CHECKING:
    from .calls import Call

_EXPRESSION: Final = re.compile(r"\{([^}]*)\}")
_VARIABLE: Final = re.compile(r"(\+?)([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Resource:
    """An entry of a list of resources, for functions declared with `@proxy.resources`.

    `size`: in bytes, where it is known. A `@proxy.resource` reads the resource.
    """

    uri: str
    name: str
    description: str = ""
    title: str = ""
    mime_type: str = ""
    size: int | None = None

    def card(self) -> dict[str, Any]:
        """The entry as `resources/list` shows it."""
        return _card("uri", self.uri, self.name, self.title, self.description, self.mime_type) | (
            {} if self.size is None else {"size": self.size}
        )


@dataclass(frozen=True, slots=True)
class Contents:
    """The read text or bytes, with a type of its own. `uri`: if it differs from the request's."""

    held: str | bytes
    mime_type: str = ""
    uri: str = ""


class Readable:
    """A function that reads a resource, or all that fit a template. Raises `TypeError`.

    A template is an address with `{name}` for a part without a slash, or `{+name}` for anything
    (RFC 6570, levels 1 and 2); the function is given the parts, percent-decoded.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str = "",
        description: str = "",
        title: str = "",
        mime_type: str = "",
    ) -> None:
        self.uri = uri
        self.name = name or function.__name__
        self.description = description or inspect.getdoc(function) or ""
        self.title = title
        self.mime_type = mime_type
        self.parameters = Parameters(function, f"resource `{uri}`")
        self._variables, self._pattern = _compiled(uri)
        self._fits()

    def _fits(self) -> None:
        taken, held = set(self.parameters.schemas), set(self._variables)
        odd = sorted(held - taken) or sorted(set(self.parameters.required) - held)
        if odd:
            where = "the function does not take" if held - taken else "the address does not have"
            raise TypeError(f"resource `{self.uri}`: {where} `{odd[0]}`")

    @property
    def is_template(self) -> bool:
        """Whether it stands for many."""
        return bool(self._variables)

    def card(self) -> dict[str, Any]:
        """It, as `resources/list` or `resources/templates/list` shows it."""
        key = "uriTemplate" if self.is_template else "uri"
        return _card(key, self.uri, self.name, self.title, self.description, self.mime_type)

    def match(self, uri: str) -> dict[str, str] | None:
        """The parts of an address it is for; None: it is for others."""
        found = self._pattern.fullmatch(uri)
        if found is None:
            return None
        return {
            name: unquote(part) for name, part in zip(self._variables, found.groups(), strict=True)
        }

    async def read(self, uri: str, parts: dict[str, str], call: Call) -> list[dict[str, Any]]:
        """Its contents; empty if there are none. Raises all that the function raises."""
        try:
            arguments = self.parameters.texts(parts)
        except ValueError as error:
            raise FileNotFoundError(f"there is no resource {uri[:200]}: {error}") from None
        found = await self.parameters.called(arguments, call)
        several = found if isinstance(found, list) and _all_contents(found) else [found]
        return [self._contents(uri, one) for one in several if one is not None]

    def _contents(self, uri: str, found: Any) -> dict[str, Any]:
        found = plain(found)
        if isinstance(found, Contents):
            kind = found.mime_type or self.mime_type
            return contents(found.uri or uri, found.held, kind)
        if isinstance(found, (bytes, bytearray, memoryview)):
            return contents(uri, bytes(found), self.mime_type)
        if isinstance(found, str):
            return contents(uri, found, self.mime_type)
        said = json.dumps(jsonable(found), ensure_ascii=False)
        return contents(uri, said, self.mime_type or "application/json")


def _all_contents(found: list[Any]) -> bool:
    return bool(found) and all(isinstance(one, Contents) for one in found)


def _card(
    key: str, uri: str, name: str, title: str, description: str, mime_type: str
) -> dict[str, Any]:
    more = {"title": title, "description": description, "mimeType": mime_type}
    return {key: uri, "name": name, **{name: held for name, held in more.items() if held}}


def _compiled(uri: str) -> tuple[list[str], re.Pattern[str]]:
    """The names in a template, and the pattern of its addresses. Raises `TypeError`."""
    names: list[str] = []
    pattern, end = "", 0
    for expression in _EXPRESSION.finditer(uri):
        variable = _VARIABLE.fullmatch(expression[1])
        if variable is None:
            raise TypeError(
                f"resource `{uri}`: `{expression[0]}` is not understood; `{{name}}` stands for a "
                "part without a slash, `{+name}` for anything"
            )
        names.append(variable[2])
        part = r"(.+)" if variable[1] else r"([^/?#]+)"
        pattern += re.escape(uri[end : expression.start()]) + part
        end = expression.end()
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
        raise TypeError(f"resource `{uri}` must begin with a scheme, as in `notes://today`")
    return names, re.compile(pattern + re.escape(uri[end:]), re.DOTALL)
