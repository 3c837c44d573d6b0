"""The options of a chain as one value, and commands that take them all.

Typer wants each option as a parameter of each command's function. Here they are written once.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from conductor.cli import fast, options


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """What was said of a chain besides its components, as texts and flags; in the order of help."""

    require_sandbox: options.RequireSandbox = False
    require_hardening: options.RequireHardening = False
    locked: options.Locked = False
    lock_file: options.LockFile = None
    isolation: options.Isolation = None
    cache: options.Cache = None
    clock: options.Clock = None
    line_limit: options.LineLimit = None
    stall: options.Stall = None
    grace: options.Grace = None
    drain: options.Drain = None
    drain_total: options.DrainTotal = None
    mcp_bridge: options.McpBridge = None
    trace: options.Trace = None
    trace_content: options.TraceContent = None
    audit: options.Audit = None
    metrics: options.Metrics = None
    watch: options.Watch = False
    log: options.Log = None
    verbose: options.Verbose = False

    def level(self) -> str:
        """The log level. Raises `UsageError`."""
        log = self.log and options.read("--log", self.log, fast.OTHERS["--log"])
        return fast.level(log, self.verbose)

    def fields(self) -> dict[str, Any]:
        """The fields of `conductor.run.plan.Options` that are set. Raises `UsageError`."""
        found: dict[str, Any] = {
            field: True for field in fast.FLAGS.values() if getattr(self, field)
        }
        for option, (field, reader) in fast.VALUES.items():
            text = getattr(self, field)
            if text is not None:
                found[field] = options.read(option, text, reader)
        return found

    def parsed(self, mode: str, components: list[str], dialect: str | None = None) -> fast.Parsed:
        """The chain that all this comes to. Raises `UsageError`."""
        given = self.fields()
        spoken = dialect and options.read("--dialect", dialect, fast.OTHERS["--dialect"])
        return fast.assemble(mode, components, spoken, self.level(), given)


def taken(*, without: tuple[str, ...] = ()) -> Callable[[Callable[..., int]], Any]:
    """Makes a command take the options of a chain, all but those of some names.

    Decorates a function that wants them as `given`, a `ChainOptions`; typer sees one parameter for
    each, after the function's own.
    """
    hints = get_type_hints(ChainOptions, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(ChainOptions)
        if field.name not in without
    ]

    def decorate(command: Callable[..., int]) -> Any:
        @functools.wraps(command)
        def run(**values: Any) -> int:
            given = ChainOptions(**{one.name: values.pop(one.name) for one in parameters})
            return command(**values, given=given)

        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.name != "given"]
        run.__dict__["__signature__"] = signature.replace(parameters=[*own, *parameters])
        return run

    return decorate
