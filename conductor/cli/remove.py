"""`conductor remove NAME…`: removes installed components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from conductor.cli import configured, report
from conductor.cli.typer_options import argument, paragraphs
from conductor.errors import UsageError, visible_path
from conductor.packages import store
from conductor.spec import installed, syntax
from conductor.spec.config.model import Config

HELP: Final = paragraphs(
    "Remove installed components, and your agreements about them.",
    "A running chain keeps its components until it ends.",
)
EPILOG: Final = "Example:\n\n  conductor remove weather"


def remove(
    names: Annotated[
        list[str],
        argument("NAME", "As `conductor list` shows it."),
    ],
) -> int:
    """Removes components."""
    wanted = list(dict.fromkeys(names))
    known = installed.names()
    for name in wanted:
        if name not in known:
            raise store.unknown(name, known)
    config = _configuration()
    for name in wanted:
        for origin in _naming(name, config):
            report.write(f"`{name}` is still named in {origin}", word="warning")
        before = store.receipt(name)
        store.remove(name)
        again = ""
        if isinstance(before, installed.Receipt):
            again = f", which came from {visible_path(before.asked)}"
        report.say(f"removed: {name}{again}")
    return 0


def _configuration() -> Config | None:
    """The configuration; None for a wrong file, which keeps nobody from removing."""
    try:
        return configured.here()
    except UsageError:
        return None


def _naming(name: str, config: Config | None) -> Iterator[str]:
    """The places in the configuration that name a component."""
    if config is None:
        return
    for key, component in config.components.items():
        if _names(component.what, name, key):
            yield f"the component `{key}` ({component.origin})"
    for key, chain in config.chains.items():
        if name not in config.components and any(_names(c.what, name) for c in chain.components):
            yield f"the chain `{key}` ({chain.origin})"


def _names(written: Any, name: str, key: str = "") -> bool:
    """Whether a component of the configuration is the installed one of this name."""
    if isinstance(written, dict):
        kinds = ("command", "wasm", "component")
        named = written.get("component") or written.get("command")
        if not any(written.get(kind) is not None for kind in kinds):
            named = written.get("name", key)
        return bool(named == name)
    if not isinstance(written, str):
        return False
    try:
        return syntax.split(written.strip())[0] == name
    except UsageError:
        return False
