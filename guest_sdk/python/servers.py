"""`Server`: a proxy's offer to the agent by MCP. `Proxy` is a server, and may have more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from .parameters import declarable
from .prompts import Prompt
from .resources import Readable
from .tools import Tool, When

if TYPE_CHECKING:
    from .sessions import Session

F = TypeVar("F", bound=Callable[..., Any])
Kind = Literal["tools", "resources", "prompts"]
KINDS: Final = ("tools", "resources", "prompts")


class Server:
    """Tools, resources and prompts under one name, declared to each session.

    Args:
        name: its name for the agent; empty: the proxy's own name in its chain.
        instructions: words for the model about it; empty: the proxy's description.
    """

    def __init__(self, name: str = "", *, instructions: str = "") -> None:
        self.name = name
        self.instructions = instructions
        self.tools: dict[str, Tool] = {}
        self.prompts: dict[str, Prompt] = {}
        self.readables: list[Readable] = []
        self.providers: list[Callable[..., Any]] = []

    @overload
    def tool(self, function: F) -> F: ...

    @overload
    def tool(
        self,
        *,
        name: str = "",
        description: str = "",
        title: str = "",
        annotations: dict[str, Any] | None = None,
        when: When | None = None,
        schema: dict[str, Any] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Callable[[F], F]: ...

    def tool(self, function: Any = None, **more: Any) -> Any:
        """Declares a tool: `@server.tool` or `@server.tool(name="…")`.

        Its schema comes from the type hints, its description from the docstring. A result
        annotated with a dataclass, a `TypedDict` or a `dict[str, int]` has an
        output schema too. A parameter annotated `Call` gets the call itself. The tool returns text,
        blocks, a list of both, any JSON value, or a `Result`. `annotations`: MCP's hints, e.g.
        `{"readOnlyHint": True}`. `when`: called with the session; False hides the tool.
        `schema`: JSON Schema of its arguments, where hints cannot say it; then the function
        gets all of them as `arguments`, a dictionary that nobody has checked. `meta`: `_meta` of
        the tool, e.g. `{"ui": {"resourceUri": "ui://dice"}}` for the page that shows its results.
        """
        if function is None:
            return lambda wrapped: self.tool(wrapped, **more)
        declarable(function, "tool")
        one = Tool(function, **more)
        if one.name in self.tools:
            raise ValueError(f"there are two tools `{one.name}`: give one of them another name")
        self.tools[one.name] = one
        return function

    @overload
    def prompt(self, function: F) -> F: ...

    @overload
    def prompt(
        self,
        *,
        name: str = "",
        description: str = "",
        title: str = "",
        when: When | None = None,
    ) -> Callable[[F], F]: ...

    def prompt(self, function: Any = None, **more: Any) -> Any:
        """Declares a prompt, which a person picks by name: `@server.prompt`.

        Its arguments are the function's parameters. It returns text or blocks of the user, a pair
        `("assistant", "…")`, or a list of these.
        """
        if function is None:
            return lambda wrapped: self.prompt(wrapped, **more)
        declarable(function, "prompt")
        one = Prompt(function, **more)
        self.prompts[one.name] = one
        return function

    def resource(
        self,
        uri: str,
        *,
        name: str = "",
        description: str = "",
        title: str = "",
        mime_type: str = "",
    ) -> Callable[[F], F]:
        """Declares a function that reads an address, or all addresses that fit a template.

        `@server.resource("notes://today")`, `@server.resource("notes://{day}")`: the function
        gets the parts of the template as its parameters; `{+path}` may hold slashes. It returns
        text, bytes, any JSON value, `Contents`, or a list of `Contents`. None, or
        `FileNotFoundError`: there is no resource.
        """
        if not isinstance(uri, str):
            raise TypeError(
                f"`{getattr(uri, '__name__', uri)}`: a resource is declared with its address, "
                'as in `@proxy.resource("notes://{day}")`'
            )

        def declare(function: F) -> F:
            self.readables.append(
                Readable(
                    function,
                    uri,
                    name=name,
                    description=description,
                    title=title,
                    mime_type=mime_type,
                )
            )
            return function

        return declare

    def resources(self, function: F) -> F:
        """Declares a function that lists resources: it returns a list of `Resource`.

        It is called each time the agent asks, and may take a `Call`. `list_changed("resources")`
        says that it would return something else.
        """
        self.providers.append(function)
        return function

    # -- telling -------------------------------------------------------------------------------

    def list_changed(self, kind: Kind, session: Session | None = None) -> None:
        """Tells the agent that a list has changed: `tools`, `resources` or `prompts`.

        `session`: only in this one. Raises `ValueError` for anything else.
        """
        if kind not in KINDS:
            raise ValueError(f"there is no list of `{kind}`; lists are: {', '.join(KINDS)}")
        from .mcp import host

        host().changed(self, kind, session)

    def resource_updated(self, uri: str, session: Session | None = None) -> None:
        """Tells those who subscribed to a resource that there is something else to read."""
        from .mcp import host

        host().updated(self, uri, session)

    @property
    def offers(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.tools or self.prompts or self.readables or self.providers)


__all__ = ["KINDS", "Kind", "Server"]
