"""Secrets by reference: where they are read, and what is refused."""

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conductor import errors
from conductor.errors import ComponentError, UsageError
from conductor.record.audit import file as audit
from conductor.spec import catalog, secrets
from conductor.spec.config.model import Written
from conductor.spec.settings import configuration, environment

VALUE = 's3cr"et/vÄlue'
"""Quotes and other letters: JSON writes it in several ways."""


@pytest.fixture(autouse=True)
def _nothing_is_hidden_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_HIDDEN", {})


def settings(**config: Any) -> dict[str, Any]:
    """The configuration that a component with these settings receives."""
    spec = catalog.resolve(json.dumps({"component": "passthrough", "config": config}))
    held = configuration(spec)["config"]
    assert isinstance(held, dict)
    return held


def refused(reference: str) -> UsageError:
    """Why a reference that is well written gives no value."""
    with pytest.raises(UsageError) as error:
        settings(token={"secret": reference})
    return error.value


def test_each_kind_of_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = ModuleType("keyring")
    keyring.get_password = lambda *place: {("a/b", "me"): VALUE}.get(place)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    monkeypatch.setenv("TOKEN", VALUE)
    for number, end in enumerate(("", "\n", "\r\n")):
        (tmp_path / str(number)).write_bytes(f"{VALUE}{end}".encode())
    places = ["env:TOKEN", "keyring:a/b/me", *(f"file:{tmp_path}/{n}" for n in range(3))]
    for place in places:
        assert settings(token={"secret": place}, other=1) == {"token": VALUE, "other": 1}


def test_a_reference_may_stand_within_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    servers = [{"name": "a", "env": {"KEY": {"secret": "env:TOKEN"}, "secret": "plain"}}]
    filled = [{"name": "a", "env": {"KEY": VALUE, "secret": "plain"}}]
    assert settings(servers=servers) == {"servers": filled}


def test_it_is_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = catalog.resolve('passthrough,config.token={"secret":"env:TOKEN"}')
    for value in ("first value", "second value"):
        monkeypatch.setenv("TOKEN", value)
        assert configuration(spec)["config"] == {"token": value}


def test_variables_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    env = {"A": "plain", "B": {"secret": "env:TOKEN"}}
    spec = catalog.resolve(json.dumps({"command": "cat", "env": env}))
    assert "B" not in (spec.env or {})
    assert spec.variables == {"A": "plain", "B": "[secret env:TOKEN]"}
    started = environment(spec)
    assert started is not None
    assert (started["A"], started["B"]) == ("plain", VALUE)


def test_a_file_of_settings_may_hold_anything(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"token": {"secret": "env:NOT_THERE"}}')
    spec = catalog.resolve(f"passthrough,config={tmp_path}/s.json")
    assert configuration(spec)["config"] == {"token": {"secret": "env:NOT_THERE"}}


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"a": 1, "a": 2}', "`a` is there twice"), ('{"a": 1,\n "b": }', "line 2 column 7")],
)
def test_a_mistake_in_a_file_of_settings_has_its_place(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(UsageError, match=why):
        configuration(catalog.resolve(f"passthrough,config={tmp_path}/s.json"))


def test_files_start_from_the_folder_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(VALUE)
    monkeypatch.chdir("/")
    table = {
        "command": "cat",
        "env": {"T": {"secret": "file:token"}},
        "config": {"t": [{"secret": "file:./token"}]},
    }
    spec = catalog.resolve(Written(table, str(tmp_path)))
    assert configuration(spec)["config"] == {"t": [VALUE]}
    assert (environment(spec) or {})["T"] == VALUE


@pytest.mark.parametrize(
    "reference", ["TOKEN", "env:", "vault:x", "keyring:x", "keyring:/x", "keyring:x/", "file:"]
)
def test_a_reference_of_no_kind_is_refused_before_anything_runs(reference: str) -> None:
    with pytest.raises(UsageError, match="a secret is `env:NAME`, `file:PATH`"):
        settings(token={"secret": reference})
    env = {"A": {"secret": reference}}
    with pytest.raises(UsageError, match="the variable `A` of `cat`: a secret is `env:NAME`"):
        catalog.resolve(json.dumps({"command": "cat", "env": env}))


def test_what_is_not_there_is_named_and_what_is_there_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xfd\xfc")
    (tmp_path / "large").write_bytes(b"x" * 70_000)
    (tmp_path / "nul").write_bytes(b"abcd\0efgh")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("SHORT", "abc")
    for reference, why in {
        "env:NOT_THERE": "there is no such variable",
        f"file:{tmp_path}/none": "No such file",
        f"file:{tmp_path}/pipe": "it is no ordinary file",
        f"file:{tmp_path}/large": "it is larger than",
        f"file:{tmp_path}/bytes": "it is no UTF-8 text",
        f"file:{tmp_path}/nul": "holds a NUL",
        "keyring:a/b": "the package `keyring` is not installed",
        "env:EMPTY": "is empty",
        "env:SHORT": "has fewer than 4 characters",
    }.items():
        error = refused(reference)
        assert f"the secret `{reference}`" in error.text
        assert why in error.text
        assert error.hint
        assert "abc" not in f"{error.text}{error.hint}"


def test_a_store_that_fails_says_nothing_of_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: str) -> None:
        raise RuntimeError(VALUE)

    keyring = ModuleType("keyring")
    keyring.get_password = fail  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    error = refused("keyring:a/b")
    assert "the store failed (RuntimeError)" in error.text
    keyring.get_password = lambda *_: None  # type: ignore[attr-defined]
    assert "the store has no such entry" in refused("keyring:a/b").text


def test_whatever_is_shown_afterwards_is_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    settings(token={"secret": "env:TOKEN"})
    mark = "[secret env:TOKEN]"
    assert ComponentError(f"it wrote {VALUE}!").text == f"it wrote {mark}!"
    assert errors.one_line(f"a\n{VALUE}") == f"a {mark}"
    for text in (json.dumps([VALUE]), json.dumps([VALUE], ensure_ascii=False)):
        assert json.loads(errors.json_text(text)) == [mark]
        assert json.loads(errors.json_text(json.dumps({"line": text}))) == {"line": f'["{mark}"]'}
    line, _ = audit.sealed(audit.Head(), "now", "failure", {VALUE: [VALUE, 1.50]})
    assert json.loads(line)[mark] == [mark, 1.5]


def test_each_line_of_a_secret_is_one(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("-----BEGIN-----\nabcdefgh\nxy\n-----END-----\n")
    settings(key={"secret": f"file:{tmp_path}/key"})
    assert "abcdefgh" not in errors.visible("line abcdefgh, and xy")
    assert "and xy" in errors.visible("line abcdefgh, and xy")


def test_wrong_settings_do_not_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "not a number")
    (tmp_path / "p.wasm").write_bytes(b"\0asm\1\0\0\0")
    (tmp_path / "component.toml").write_text(
        'name = "p"\nfile = "p.wasm"\n[config.count]\ntype = "integer"\ndescription = "x"\n'
    )
    spec = catalog.resolve(f'{tmp_path}/,config.count={{"secret":"env:TOKEN"}}')
    with pytest.raises(UsageError) as error:
        configuration(spec)
    assert "must be of type integer, not '[secret env:TOKEN]'" in error.value.text


def test_a_reference_tells_itself_apart_from_other_tables() -> None:
    for value in ({"secret": 1}, {"secret": "env:X", "more": 1}, {"Secret": "env:X"}, "env:X"):
        assert not secrets.is_reference(value)
