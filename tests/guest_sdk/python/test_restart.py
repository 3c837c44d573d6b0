"""A proxy with tools is started again: sessions go on, and their tools with them."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.rig import Rig

from .test_cli import agent

pytestmark = pytest.mark.timeout(600)  # the first test may have the guest built

SOURCE = """
from guest_sdk.python import Call, Proxy

proxy = Proxy("counting", profile="tools")

@proxy.tool
def whoami(call: Call) -> str:
    return "VERSION " + (call.session.id if call.session else "nobody")
"""


def test_tools_go_on_in_open_sessions(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text(SOURCE, encoding="utf-8")
    chain = agent(rig, str(path), rig.demo(), options=("--watch",))
    first = chain.begin()
    assert chain.prompt(first, "/tool whoami") == f"VERSION {first}"

    edited = tmp_path / "edited"
    edited.write_text(SOURCE.replace("VERSION", "SECOND"), encoding="utf-8")
    shutil.move(edited, path)
    chain.until_stderr("replaced by its new build")
    assert chain.prompt(first, "/tool whoami") == "SECOND nobody"
    second = chain.new_session()
    assert chain.prompt(second, "/tool whoami") == f"SECOND {second}"
    assert chain.prompt(first, "/tool whoami") == "SECOND nobody"
