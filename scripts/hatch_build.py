"""Build hook: what comes with the wheel beside the sources.

componentize-py makes the guest that runs sandboxed `.py` proxies (`guest_sdk/python/build.py`), in
some 10 s, once for each version of the SDK. Where there is no componentize-py for the platform, the
wheel goes without the guest: `conductor` builds it, or says what is missing, when the first `.py`
proxy is run.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SDK = os.path.join("guest_sdk", "python")


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the guest into the checkout, where an editable install finds it, and packs it."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What is installed for the build: componentize-py, where there are builds of it."""
        system, machine = platform.system(), platform.machine().lower()
        known = {
            "Linux": platform.libc_ver()[0] == "glibc" and machine in ("x86_64", "aarch64"),
            "Darwin": machine in ("x86_64", "arm64"),
        }
        builder = _loaded(os.path.join(self.root, SDK, "build.py"))
        return [f"componentize-py=={builder.COMPONENTIZE}"] if known.get(system) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is put together; `version` is `standard` or `editable`."""
        builder = _loaded(os.path.join(self.root, SDK, "build.py"))
        folder = os.path.join(self.root, SDK, "_guest")
        if not builder.available():
            sys.stderr.write("componentize-py is not there: the wheel goes without its guest\n")
            return
        path = builder.build(folder)
        for name in os.listdir(folder):  # guests of an SDK that is no more
            if name.startswith("python-") and name.split(".")[0] not in path:
                os.unlink(os.path.join(folder, name))
        for file in (path, path.removesuffix(".wasm") + ".sha256"):
            name = os.path.basename(file)
            build_data["force_include"][file] = f"{SDK}/_guest/{name}".replace(os.sep, "/")


def _loaded(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("built", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
