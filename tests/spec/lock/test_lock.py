"""Locks as tables: what is more and what is less, and files that are none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conductor.cli import lock as locking
from conductor.core.accounts import Allowance
from conductor.core.policy import words
from conductor.errors import ComponentError, UsageError
from conductor.run import in_process, segment_loop, spawn
from conductor.run.segment_spec import GuestSpec, SegmentSpec
from conductor.spec import digests, limits
from conductor.spec.catalog import resolve_all
from conductor.spec.lock import compare, entries
from conductor.spec.lock import file as lock_file
from conductor.spec.model import Spec
from conductor.spec.options import ISOLATIONS, Options
from conductor.spec.parsed import assembled
from conductor.spec.paths import LOCK_FILE, components_folder
from conductor.spec.plan import Plan
from conductor.spec.programs import module_file
from wasm_host import Limits


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module in it."""
    shutil.copyfile(components_folder() / "passthrough" / "passthrough.wasm", tmp_path / "p.wasm")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lock(*components: str, check: bool = False, **values: Any) -> None:
    chain = assembled("agent", components, values)
    assert locking.run(chain, components, check=check) == 0


def refusal(*components: str, isolation: str = "process", proxy: bool = False) -> str:
    """The lock's objection to a chain; empty if none."""
    mode = "proxy" if proxy else "agent"
    specs = tuple(resolve_all(components))
    plan = Plan(components=specs, options=Options(isolation=isolation), mode=mode)
    try:
        compare.enforced(plan, LOCK_FILE, lambda name, text: None)
    except UsageError as error:
        return error.text
    return ""


WIDER: list[tuple[str, str, str]] = [
    ("./p.wasm", "./p.wasm,allow=clock", "rights: + clock"),
    ("./p.wasm", "./p.wasm,only=full", "rights: + full"),
    ("./p.wasm", "./p.wasm,allow=change:words", "rights: + change:words"),
    (
        "./p.wasm,only=change:ends",
        "./p.wasm,only=change:ends+answer:prompts",
        "rights: + answer:prompts",
    ),
    ("./p.wasm", "./p.wasm,only=trusted", "rights: + trusted"),
    ("./p.wasm", "./p.wasm,allow=change:tool-calls", "rights: + change:tool-calls"),
    ("./p.wasm,allow=prompt:within", "./p.wasm,allow=prompt:anytime", "rights: + prompt:anytime"),
    ("./p.wasm,allow=command:a", "./p.wasm,allow=command:a+command:b", "rights: + command:b"),
    (
        "./p.wasm,allow=extension:_x/*",
        "./p.wasm,allow=extension:_x/*+extension:_y",
        "rights: + extension:_y",
    ),
    ("./p.wasm,allow=read:docs/**", "./p.wasm,allow=read:**", "rights: + read:**"),
    ("./p.wasm,fails=closed", "./p.wasm", "fails: closed → open"),
    ("./p.wasm,hold=5", "./p.wasm,hold=6", "hold: 5 s → 6 s"),
    ("./p.wasm,hold=5", "./p.wasm", "hold: 5 s → none"),
    ("./p.wasm,on_violation=fail", "./p.wasm", "on_violation: fail → pass"),
    ("./p.wasm,on_failure=fail", "./p.wasm", "on_failure: fail → restart"),
    ("./p.wasm", "./p.wasm,on_failure=restart+bypass", "on_failure: restart → restart+bypass"),
    ("./p.wasm,on_failure=fail", "./p.wasm,on_failure=bypass", "on_failure: fail → bypass"),
    ("./p.wasm,only=context", "./p.wasm,only=filter", "rights: + filter"),
    ("./p.wasm,only=observer", "./p.wasm,only=full", "rights: + full"),
    ("./p.wasm,timeout=5", "./p.wasm", "timeout: 5 s → none"),
    ("./p.wasm,memory=16MiB", "./p.wasm", "limits.memory_bytes: 16 MiB → 64 MiB (default)"),
    ("./p.wasm,limit.fuel=1000000", "./p.wasm", "limits.fuel: 1000000 → off"),
]


@pytest.mark.proves("a lock refuses more of anything")
@pytest.mark.parametrize(
    ("less", "more", "said"), WIDER, ids=[f"{less} {more}" for less, more, _ in WIDER]
)
def test_more_is_refused_and_less_is_not(here: Path, less: str, more: str, said: str) -> None:
    lock(less, "demo")
    text = refusal(more, "demo")
    assert "  p (./p.wasm):\n  |     " in text
    assert f"    {said}" in text
    lock(more, "demo")
    assert refusal(less, "demo") == ""


def test_an_agent_that_is_started_again_is_more(here: Path) -> None:
    lock("./p.wasm", "demo")
    text = refusal("./p.wasm", "demo,on_failure=restart")
    assert "demo, agent:" in text
    assert "on_failure: fail → restart" in text
    lock("./p.wasm", "demo,on_failure=restart")
    assert refusal("./p.wasm", "demo") == ""


@pytest.mark.proves("a lock refuses more of anything")
@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("./p.wasm,config.mode=strict", "./p.wasm,config.mode=lax", 'config: {"mode":"strict"} → '),
        ("./p.wasm", "./p.wasm,config.mode=lax", "config: none → "),
        ("./p.wasm,on_failure=bypass", "./p.wasm", "on_failure: bypass → restart"),
        ("./p.wasm,only=context", "./p.wasm,only=observer", "rights: + observer"),
        ("python -c pass,dialect=sdk", "python -c pass,dialect=acp", "dialect: sdk → acp"),
        ("python -c pass,name=x", "python -c fail,name=x", 'args: ["-c","pass"] → ["-c","fail"]'),
    ],
)
def test_what_is_neither_more_nor_less_is_refused_both_ways(
    here: Path, one: str, other: str, said: str
) -> None:
    lock(one, "demo")
    assert said in refusal(other, "demo")
    lock(other, "demo")
    assert refusal(one, "demo") != ""


@pytest.mark.parametrize("rights", [*words.SETS, "context+stop:turns", "read:**+web:a.example"])
def test_a_lock_holds_the_very_rights(here: Path, rights: str) -> None:
    specs = tuple(resolve_all([f"./p.wasm,only={rights}", "demo"]))
    entry, _ = entries.entries(Plan(components=specs, options=Options()), "x.lock")
    assert tuple(entry.rights) == specs[0].policy.rights
    assert entry.meaning == words.meaning(*entry.rights)


def test_a_word_that_means_something_else_now_is_another_word(here: Path) -> None:
    """A release may widen a word: what was locked does not grow by that."""
    lock("./p.wasm", "demo")
    file = here / "conductor.lock"
    file.write_text(file.read_text().replace(words.meaning("context"), "00000000"))
    assert "rights: + context" in refusal("./p.wasm", "demo")


@pytest.mark.parametrize(("given", "wider"), [
    ("separate", ("process", "inline")), ("process", ("inline",)), ("inline", ()),
])  # fmt: skip
def test_isolation_may_be_stricter_not_laxer(
    here: Path, given: str, wider: tuple[str, ...]
) -> None:
    lock("./p.wasm", "demo", isolation=given)
    for isolation in ISOLATIONS:
        text = refusal("./p.wasm", "demo", isolation=isolation)
        assert (f"isolation: {given} → {isolation}" in text) is (isolation in wider), isolation


@pytest.mark.proves("a lock refuses other components")
@pytest.mark.parametrize(
    ("chain", "said"),
    [
        (("./p.wasm", "datetime", "demo"), "- p (./p.wasm), module"),
        (("datetime", "demo"), "- p (./p.wasm), module"),
        (("datetime", "./p.wasm", "passthrough", "demo"), "+ passthrough, bundled"),
        (("datetime", "./p.wasm,name=q", "demo"), "+ q (./p.wasm), module"),
        (("datetime", "./p.wasm", "python agent.py"), "- demo, agent, bundled"),
        (("./p.wasm,name=datetime", "./p.wasm", "demo"), "+ datetime (./p.wasm), module"),
    ],
)
def test_other_components_or_another_order_are_refused(
    here: Path, chain: tuple[str, ...], said: str
) -> None:
    lock("datetime", "./p.wasm", "demo")
    text = refusal(*chain)
    assert "  components:\n" in text
    assert said in text


_MODULE = '[[component]]\nname = "a"\nrole = "proxy"\nkind = "module"\nsource = "x"\n'
_AGENT = _MODULE.replace("proxy", "agent")

WRONG: dict[str, tuple[str, str, str]] = {
    "no toml": ("version = ", ", line 1: Invalid value", "conductor lock"),
    "no version": ("", "it has no version", "remove it"),
    "older": ("version = 1\n", "line 1: its format is version 1; this conductor", "remove it"),
    "newer": ("# x\n\nversion = 4\n", "line 3: its format is version 4", "remove it"),
    "no component": ("version = 3\n", "`component` is missing", ""),
    "unknown key": (
        f"version = 3\n{_MODULE}frob = 1\n",
        "line 7: [component] has no key `frob`",
        "not to be edited by hand",
    ),
    "unknown table": (
        "version = 3\ncomponent = []\n[other]\n",
        "line 3: a lock file has no key `other`",
        "",
    ),
    "unknown kind": (
        f"version = 3\n{_AGENT.replace('module', 'odd')}",
        "line 5: `component.kind` should be 'bundled', 'module'",
        "",
    ),
    "second component": (
        f"version = 3\n{_AGENT}{_AGENT.replace(chr(34) + 'a' + chr(34), '3')}",
        "line 8: `component.name` should be a valid string",
        "",
    ),
    "in a table": (
        f"version = 3\n{_AGENT}\n[component.limits]\ncpu_ms = true\n",
        "line 9: `component.limits.cpu_ms` should be a valid integer",
        "",
    ),
    "missing": ('version = 3\n[[component]]\nname = "a"\n', "`role` is missing", ""),
    "rights": (f'version = 3\n{_MODULE}rights = ["root"]\n', "line 7: no right `root`", ""),
    "old rights": (
        f'version = 3\n{_MODULE}rights = ["kv"]\n',
        "line 7: `kv` is written `storage` now",
        "writes it anew",
    ),
    "key": (
        f'version = 3\n{_MODULE}rights = ["full"]\nunguard = []\n',
        "line 8: [component] has no key `unguard`",
        "",
    ),
    "digest": (
        f'version = 3\n{_AGENT}sha256 = "abc"\n',
        "line 7: `component.sha256` should be a SHA-256 digest",
        "",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_lock_is_refused_with_the_line(name: str) -> None:
    text, said, hint = WRONG[name]
    with pytest.raises(UsageError) as caught:
        lock_file.parse(text.encode(), "x.lock")
    assert caught.value.text.startswith("cannot read the lock file `x.lock`")
    assert said in caught.value.text
    assert hint in caught.value.hint


@pytest.mark.proves("a lock allows nothing that it")
def test_a_lock_that_says_nothing_of_a_power_does_not_give_it(here: Path) -> None:
    lock("./p.wasm,allow=clock+change:tool-calls,limit.fuel=5,timeout=3", "demo")
    file = here / "conductor.lock"
    kept = ("name", "role", "kind", "source", "sha256", "carrier")
    lines = file.read_text().splitlines()
    cut = lines.index("[component.limits]")
    first = [one for one in lines[:cut] if one.startswith(("version", "[", *kept))]
    last = lines[lines.index("[[component]]", cut) :]
    file.write_text("\n".join([*first, *last]))
    text = refusal("./p.wasm,allow=clock+change:tool-calls,memory=128MiB", "demo")
    for said in ("rights: + context (default), + clock (command line), + change:tool-calls (",
                 "isolation: none →", "fails: closed → open", "on_violation: fail → pass",
                 "on_failure: fail → restart",
                 "limits.memory_bytes: 64 MiB → 128 MiB"):  # fmt: skip
        assert said in text


def test_a_peer_agent_is_pinned_and_does_not_pin_the_chains_agent(here: Path) -> None:
    beside: dict[str, Any] = {"peer": ("a=demo",), "branch": ("b=datetime",)}
    components = ["./p.wasm,allow=peer:a+peer:b", "demo"]
    lock(*components, **beside)
    locked = [(one.name, one.role, one.pinned) for one in lock_file.read(LOCK_FILE).component]
    assert locked[1:] == [("a", "agent", True), ("b", "agent", True), ("demo", "agent", False)]
    lock(*components, check=True, **beside)


def test_the_default_limits_are_those_of_who_keeps_the_account() -> None:
    guest, chain = msgspec.structs.asdict(Limits()), msgspec.structs.asdict(Allowance())
    shared = guest.keys() & chain.keys()
    assert {name: guest[name] for name in shared} == {name: chain[name] for name in shared}
    kept = {**guest, **chain}
    elsewhere = limits.PLACES["services"] - kept.keys()
    assert {one.name: one.default for one in limits.TABLE if one.name not in elsewhere} == kept


def test_the_digest_of_a_folder_is_that_of_names_and_contents(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "x.py").write_text("1")
    first = digests.of(str(folder))
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("compiled")
    assert digests.of(str(folder)) == first
    (folder / "y.py").write_text("")
    assert digests.of(str(folder)) != first
    (folder / "y.py").unlink()
    (folder / "sub" / "x.py").rename(folder / "x.py")
    assert digests.of(str(folder)) != first


def test_a_program_that_changed_is_not_started_again(tmp_path: Path) -> None:
    program = tmp_path / "p"
    program.write_text("one")
    pins = {str(program): digests.of(str(program))}
    digests.verify(pins, "proxy `p`", "x.lock")
    program.write_text("two")
    with pytest.raises(ComponentError, match=r"proxy `p`: `.*p` differs .* x\.lock pins: sha256"):
        digests.verify(pins, "proxy `p`", "x.lock")
    program.unlink()
    with pytest.raises(ComponentError, match="cannot be read: No such file"):
        digests.verify(pins, "proxy `p`", "x.lock")


def test_code_is_found_without_being_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lockedpack" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("raise AssertionError")
    (package / "mine.py").write_text("raise AssertionError")
    monkeypatch.syspath_prepend(tmp_path)
    assert module_file("lockedpack.inner.mine") == str(package / "mine.py")
    assert module_file("lockedpack.inner") == str(package / "__init__.py")
    assert module_file("lockedpack.other") is None
    assert module_file("sys") is None
    assert not any(name.startswith("lockedpack") for name in sys.modules)


def pinned(code: Path, name: str) -> Spec:
    """The function `proxy` of a file, which a lock pins as it is now."""
    (spec,) = resolve_all([f"py:{name}:proxy"])
    return msgspec.structs.replace(spec, pins={str(code): digests.of(str(code))}, locked="x.lock")


def test_pinned_code_that_is_loaded_already_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "pinnedbefore.py"
    code.write_text("async def proxy(channel):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = pinned(code, "pinnedbefore")
    assert in_process.load(spec) is in_process.load(spec)
    code.write_text("async def proxy(channel):\n    raise ValueError\n")
    with pytest.raises(ComponentError, match="differs"):
        in_process.load(spec)


@pytest.mark.proves("the host runs the bytes that")
def test_pinned_code_runs_as_it_was_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that changes after the comparison is not run, whatever was compiled of it before."""
    code = tmp_path / "pinnedcode.py"
    code.write_text("async def proxy(channel):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = pinned(code, "pinnedcode")
    before = os.stat(code)
    code.write_text("raise AssertionError('ran')   #".ljust(before.st_size - 1) + "\n")
    os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ComponentError, match=r"differs from the one that x\.lock pins"):
        in_process.load(spec)
    assert "pinnedcode" not in sys.modules
    with pytest.raises(AssertionError, match="ran"):
        in_process.load(pinned(code, "pinnedcode"))


def test_pinned_code_in_a_package_begins_as_any_import_of_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pinnedpackage"
    package.mkdir()
    (package / "__init__.py").write_text("import builtins\nbuiltins.pinned_name = 'set'\n")
    code = package / "part.py"
    code.write_text("name = pinned_name\nasync def proxy(channel):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.pinned_name", "", raising=False)
    proxy: Any = in_process.load(pinned(code, "pinnedpackage.part"))
    assert proxy.__globals__["name"] == "set"


@pytest.mark.proves("the host runs the bytes that")
def test_the_host_refuses_a_module_that_changed_since_it_was_compared(here: Path) -> None:
    """Whatever happens to the file in between: it compares the bytes that it would run."""
    cache = here / "cache"
    guest = GuestSpec(
        name="p",
        wasm=str(here / "p.wasm"),
        sha256="0" * 64,
        label="proxy `p`",
        locked="conductor.lock",
    )
    told = SegmentSpec([guest], cache=str(cache))
    ran = subprocess.run(
        spawn.child_command(),
        input=msgspec.json.encode(told) + b"\n",
        capture_output=True,
        env={},
        timeout=60,
        check=False,
    )
    assert ran.returncode == segment_loop.EXIT_GUEST_FAILED, ran
    said = msgspec.json.decode(ran.stdout[1:])
    assert said["method"] == "failed"
    assert "the one that conductor.lock pins: sha256 0000" in said["params"]["text"]
    assert list(cache.glob("*")) == []  # it was not even compiled
