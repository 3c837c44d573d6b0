"""Hints name the command that installs something where this conductor runs."""

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from conductor import installation

UV = """[tool]
requirements = [{ name = "conductor-acp", extras = ["fleet"] }]
"""
CASES = {
    "uv tool": (
        "uv tool install 'conductor-acp[fleet,remote]'",
        "uv tool install --with uvloop 'conductor-acp[fleet]'",
        "uv tool upgrade --reinstall conductor-acp",
        "uv tool upgrade conductor-acp",
    ),
    "pipx": (
        "pipx inject conductor-acp 'conductor-acp[remote]'",
        "pipx inject conductor-acp uvloop",
        "pipx reinstall conductor-acp",
        "pipx upgrade conductor-acp",
    ),
    "pip": (
        "pip install 'conductor-acp[remote]'",
        "pip install uvloop",
        "pip install --force-reinstall conductor-acp",
        "pip install --upgrade conductor-acp",
    ),
    "checkout": (
        "pip install -e '{here}[remote]'",
        "pip install uvloop",
        "pip install --force-reinstall -e '{here}'",
        "git -C {here} pull",
    ),
}


@pytest.mark.parametrize("how", CASES)
def test_it_is_the_command_of_what_installed_this_conductor(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    (tmp_path / "conductor").mkdir()
    programs.mkdir()
    for name in ("pip", "python"):
        (programs / name).touch(mode=0o755)
    files = {
        "uv tool": "uv-receipt.toml",
        "pipx": "pipx_metadata.json",
        "checkout": "pyproject.toml",
    }
    if how in files:
        (tmp_path / files[how]).write_text(UV)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setattr(installation, "__file__", str(tmp_path / "conductor" / "installation.py"))
    monkeypatch.setenv("PATH", str(programs))
    extra, package, again, newer = (text.format(here=tmp_path) for text in CASES[how])
    assert installation.with_extra("remote") == extra
    assert installation.with_package("uvloop") == package
    assert installation.again() == again
    assert installation.newer() == newer
    monkeypatch.setenv("PATH", os.defpath)
    other = installation.with_package("uvloop")
    assert other == package or str(programs / "python") in other, "never another Python's pip"


TOLD: Final = {
    "": "'conductor-acp[remote]'",
    '{"dir_info": {}, "url": "file:///a%20b"}': "'/a b[remote]'",
    '{"dir_info": {"editable": true}, "url": "file:///a"}': "'conductor-acp[remote]'",
    '{"archive_info": {}, "url": "https://a.example/one.whl"}': (
        "'conductor-acp[remote] @ https://a.example/one.whl'"
    ),
    '{"vcs_info": {"vcs": "git", "requested_revision": "main"}, "url": "https://a.example/c"}': (
        "'conductor-acp[remote] @ git+https://a.example/c@main'"
    ),
}
"""Where pip has it from, by `direct_url.json`, and the hint."""


@pytest.mark.parametrize("source", TOLD)
def test_pip_installs_it_anew_from_where_it_came(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "conductor_acp-1.dist-info"
    held.mkdir()
    (held / "METADATA").write_text("Name: conductor-acp\nVersion: 1\n")
    if source:
        (held / "direct_url.json").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(installation, "__file__", str(tmp_path / "conductor" / "installation.py"))
    assert installation.with_extra("remote").endswith(f" install {TOLD[source]}")


WITH: Final = {
    "": "'conductor-acp[fleet,remote]'",
    'directory = "/a b"': "'/a b[fleet,remote]'",
    'editable = "/a"': "--editable '/a[fleet,remote]'",
    'path = "/a/one.whl"': "'/a/one.whl[fleet,remote]'",
    'url = "https://a.example/one.whl"': (
        "'conductor-acp[fleet,remote] @ https://a.example/one.whl'"
    ),
    'git = "https://a.example/c?rev=main"': (
        "'conductor-acp[fleet,remote] @ git+https://a.example/c@main'"
    ),
}
"""Where uv has it from, by its receipt, and the hint."""


@pytest.mark.parametrize("source", WITH)
def test_uv_installs_it_anew_from_where_it_came_with_all_that_was_beside_it(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ", ".join(['name = "conductor-acp", extras = ["fleet"]', *filter(None, [source])])
    receipt = f'[tool]\nrequirements = [{{ {own} }}, {{ name = "black" }}]\n'
    (tmp_path / "uv-receipt.toml").write_text(receipt)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert installation.with_extra("remote") == f"uv tool install --with black {WITH[source]}"
