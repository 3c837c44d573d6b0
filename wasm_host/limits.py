"""Bounds on the resources of one guest; all are on by default."""

from __future__ import annotations

import msgspec

MIB = 1024 * 1024

MAX_STACK_BYTES = MIB
"""Most that `stack_bytes` may ask for; threads have 8 MiB, the host needs some itself."""

TICK_MS = 10
"""Length of one epoch tick; CPU limits are rounded up to whole ticks."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Resource bounds of one guest instance (docs/architecture.md, "wasm_host").

    Exceeding one raises `wasm_host.GuestError` whose `limit` is the field's name.

    Attributes:
        memory_bytes: size one linear memory may grow to.
        cpu_ms: milliseconds of processor time one delivery may take, rounded up to ticks of
            10 ms; and how long a program may sleep in it.
        fuel: WebAssembly instructions (roughly) one delivery may execute; `None`: not counted.
            Deterministic, unlike `cpu_ms`, and 10 to 45 % slower.
        stack_bytes: the guest's native stack.
        table_elements: entries one table may grow to.
        message_bytes: one line, either way, its newline included.
        messages_per_delivery: lines one delivery may produce.
        outbox_bytes: bytes one delivery may produce.
        json_depth: nesting of arrays and objects in one line, either way.
        json_values: values in one line, either way.
        module_bytes: the file.
        functions: functions of a module.
        locals: locals of one function.
        blocks: nesting of blocks in a function.
        exports: imports and exports together.
        sections: sections of a module, those of the modules in a component too.
        compile_bytes: memory to compile it.
        compile_ms: processor time to compile it.
    """

    memory_bytes: int = 64 * MIB
    cpu_ms: int = 1000
    fuel: int | None = None
    stack_bytes: int = 512 * 1024
    table_elements: int = 100_000
    message_bytes: int = 16 * MIB
    messages_per_delivery: int = 100_000
    outbox_bytes: int = 64 * MIB
    json_depth: int = 128
    json_values: int = 250_000
    module_bytes: int = 64 * MIB
    functions: int = 100_000
    locals: int = 10_000
    blocks: int = 2_000
    exports: int = 10_000
    sections: int = 10_000
    compile_bytes: int = 2048 * MIB
    compile_ms: int = 120_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None and name == "fuel":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"limit {name} must be a positive integer, not {value!r}")
        if self.stack_bytes > MAX_STACK_BYTES:
            raise ValueError(
                f"limit stack_bytes is at most {MAX_STACK_BYTES}, not {self.stack_bytes}: "
                "a guest runs on the stack of the thread that calls it"
            )

    @property
    def ticks(self) -> int:
        """`cpu_ms` in epoch ticks; one more, since the current tick has already begun."""
        return -(-self.cpu_ms // TICK_MS) + 1
