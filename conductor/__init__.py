"""conductor: runs chains of ACP proxies between an editor and a coding agent.

A program of your own can run a chain, and be the editor at its end:

    import asyncio

    import conductor

    async def main() -> None:
        async with conductor.open("datetime", "demo", clock="2026-03-01T12:00:00+01:00") as chain:
            print(await chain.prompt("hi"))
            async for update in chain.stream("bye"):
                print(update.text, end="")

    asyncio.run(main())

`open` starts the chain and opens a session; its end ends every process of the chain. Components are
written as for the command line (docs/reference.md). No configuration of the user or of a project is
read; the policy that an administrator has set holds. Everything runs on one event loop, and nothing
of it may be called from another thread. Errors are `ConductorError`s with a `hint`.

`Runtime` is a chain without that client: its two ends are transports.
"""

# Type checkers know it by its name; to import `typing` would cost programs that must start quickly.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from conductor.client.chain import Chain, Session, Turn, open  # noqa: A004
    from conductor.client.values import (
        Answer,
        ChainOptions,
        Permission,
        PermissionOption,
        Update,
    )
    from conductor.errors import ComponentError, ConductorError, RequestError, UsageError
else:
    # Whatever starts conductor imports this package, and editors wait for that.
    _PLACES = {
        "client.chain": ("Chain", "Session", "Turn", "open"),
        "client.values": ("Answer", "ChainOptions", "Permission", "PermissionOption", "Update"),
        "errors": ("ComponentError", "ConductorError", "RequestError", "UsageError"),
    }

    def __getattr__(name):  # noqa: ANN001, ANN202
        for place, names in _PLACES.items():
            if name in names:
                from importlib import import_module

                return getattr(import_module(f"conductor.{place}"), name)
        raise AttributeError(f"module `conductor` has no attribute `{name}`")


__all__ = [
    "Answer",
    "Chain",
    "ChainOptions",
    "ComponentError",
    "ConductorError",
    "Permission",
    "PermissionOption",
    "RequestError",
    "Session",
    "Turn",
    "Update",
    "UsageError",
    "open",
]
