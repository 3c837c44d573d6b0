"""Guests inside a sealed process, for `test_harden.py`: `main` reports by one line of JSON.

It takes a scenario and a plan as JSON: ``modules`` (paths by name), ``limits`` (by name),
``cache``, ``memory``, and whether to ``settle``.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import wasm_host
from wasm_host import harden

Plan = dict[str, Any]
Modules = dict[str, wasm_host.Module]

MIB = 1 << 20


def line(module: wasm_host.Module, json: bytes) -> bytes:
    """A line as the module's carrier frames it."""
    return (b"" if module.carrier == "wasi" else b"p") + json + b"\n"


def start(module: wasm_host.Module) -> wasm_host.Guest:
    """A started instance."""
    guest = module.instantiate("it")
    guest.start(b"")
    return guest


def harm(module: wasm_host.Module) -> list[str | None]:
    """How a hostile guest ends: phase, limit, and what is said about it."""
    try:
        guest = start(module)
        for _ in range(3):
            guest.deliver(line(module, b'{"a":[1]}'))
    except wasm_host.GuestError as error:
        return [error.phase, error.limit, str(error)]
    return ["", None, guest._cause if guest.dead else "lives"]  # type: ignore[attr-defined]


def deliver(modules: Modules) -> object:
    """A thousand messages through each carrier; how many came back, and the last one."""
    found = {}
    for name, module in modules.items():
        guest = start(module)
        outs = [guest.deliver(line(module, b"%d" % index)) for index in range(1000)]
        guest.close()
        found[name] = [len(outs), len(set(outs)), outs[-1].decode()]
    return found


def large(modules: Modules) -> object:
    """A line of 64 MiB through each carrier: what came back, with the memory it took."""
    # Not x, by which these guests are told to trap.
    body = b'"' + b"y" * (64 * MIB - 3) + b'"'
    found = {}
    for name, module in modules.items():
        guest = start(module)
        sent = line(module, body)
        out = guest.deliver(sent)
        found[name] = [len(out) == len(sent), out[1:] == sent[1:], guest.memory_bytes]
        guest.close()
    return found


def hostile(modules: Modules) -> object:
    """Each hostile guest's end, with a good one that has to live on beside it."""
    good = start(modules.pop("good"))
    ends = {}
    for name, module in modules.items():
        ends[name] = harm(module)
        assert good.deliver(b"p1\n") == b"s1\n"
    return ends


def many(modules: Modules) -> object:
    """Twenty instances of each carrier at once, three times over."""
    for _ in range(3):
        guests = [(module, start(module)) for module in modules.values() for _ in range(20)]
        for module, guest in guests:
            assert guest.deliver(line(module, b"1"))[-2:] == b"1\n"
        for _, guest in guests:
            guest.close()
    return 1 + _thread._count()


def fault(modules: Modules) -> object:
    """A fault of the host's own code, which must be reported as anywhere else."""
    raise RuntimeError(f"a fault of the host with {len(modules)} modules")


def crash(_: Modules) -> object:
    """The end libraries choose when they lose faith in their state."""
    os.abort()


SCENARIOS: dict[str, Callable[[Modules], object]] = {
    "deliver": deliver, "large": large, "hostile": hostile, "many": many, "fault": fault,
    "crash": crash, "nothing": len,
}  # fmt: skip


def load(plan: Plan) -> Modules:
    """The plan's modules, by name."""
    limits = plan.get("limits", {})
    cache = Path(plan["cache"]) if plan.get("cache") else None
    return {
        name: wasm_host.load(path, cache_dir=cache, limits=wasm_host.Limits(**limits.get(name, {})))
        for name, path in plan["modules"].items()
    }


def main(scenario: str, plan_text: str) -> None:
    """Load, lock up, run a scenario, report."""
    plan: Plan = msgspec.json.decode(plan_text)
    modules = load(plan)
    for module in modules.values():
        module.warm()
    encode = msgspec.json.encode
    encode(harden.report())
    harden.seal(memory=plan.get("memory"))
    result = SCENARIOS[scenario](modules)
    if plan.get("settle"):
        harden.settle()
    sys.stderr.write("written after sealing\n")
    said = memoryview(encode({"result": result, "layers": harden.report()}) + b"\n")
    while said:
        said = said[os.write(1, said) :]
