"""Bundled Python components for the tests beside: loaded for a playground, or run in a chain."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from conductor.spec import catalog
from guest_sdk.python import Playground, Proxy, Record
from tests.harness.process.rig import Chain, Rig, python_path
from tests.places import COMPONENTS

Json = dict[str, Any]
FORMS: Final = ("sandboxed", "program", "in process")
"""How a Python component can run."""
V2: Final = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {}}
"""The params of `initialize` in version 2."""


def load(name: str) -> Proxy[Any]:
    """The proxy of a bundled component, loaded anew."""
    proxy = load_module(name).proxy
    assert isinstance(proxy, Proxy)
    assert proxy.name == name
    return proxy


def load_module(name: str) -> ModuleType:
    """The module of a bundled component, loaded anew."""
    found = catalog.bundled_manifest(name)
    assert found is not None
    path = COMPONENTS / name / str(found.file)
    if path.is_dir():
        path /= "proxy.py"
    spec = importlib.util.spec_from_file_location(f"library_{name.replace('-', '_')}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # for the files beside it, if there are any
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def play(name: str, **options: Any) -> Playground:
    """A playground around a bundled component; `config` and the rest as `Playground` has them."""
    return Playground(load(name), **options)


def says(playground: Playground, *chunks: str) -> Callable[[Record], Any]:
    """How an agent answers that says these chunks of text to every prompt."""

    def answer(request: Record) -> Any:
        if request.method != "session/prompt":
            return None
        for chunk in chunks:
            playground.agent.say(request.params.session_id, chunk)
        return {"stopReason": "end_turn"}

    return answer


def component(name: str, config: Json | None = None, /, **options: Any) -> str:
    """A bundled component, as a command line names it with settings."""
    return json.dumps({"component": name, "config": config or {}, **options})


def in_form(form: str, name: str, config: Json | None = None, /, **options: Any) -> str:
    """A component in one of `FORMS`: a bundled one, or the file at a path. Its folder must be in
    `PYTHONPATH` for "in process"."""
    if form == "sandboxed":
        return component(name, config, **options)
    file = Path(name)
    if not file.suffix:
        manifest = catalog.bundled_manifest(name)
        assert manifest is not None
        file = COMPONENTS / name / str(manifest.file)
    file = file / "proxy.py" if file.is_dir() else file
    source = {"command": sys.executable, "args": [str(file)]}
    if form == "in process":
        source = {"component": f"py:{file.stem}:proxy"}
    return json.dumps({**source, "name": file.stem if file.stem != "proxy" else name,
                       "config": config or {}, **options})  # fmt: skip


def folders(*names: str) -> str:
    """`PYTHONPATH` with the folders of these bundled components, or of files at these paths."""
    found = [Path(name).parent if Path(name).suffix else COMPONENTS / name for name in names]
    return os.pathsep.join([*map(str, found), python_path()])


def agent(rig: Rig, *components: str, options: tuple[str, ...] = (), **env: str) -> Chain:
    """A chain that uses the user's cache of compiled modules."""
    return rig.run("agent", *options, *components, **env)


def received(rig: Rig, method: str) -> list[Json]:
    """The parameters of the messages that the rig's agent got by this method, in order."""
    frames = [entry.frame for entry in rig.log("A", "in")]
    return [frame.get("params", {}) for frame in frames if frame.get("method") == method]
