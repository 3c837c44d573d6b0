"""The store: atomic at any moment, and nothing in it is believed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.errors import ConductorError, UsageError
from conductor.packages import install, sources, store
from conductor.packages.install import Candidate
from conductor.packages.store import Damaged
from conductor.spec import catalog, installed, paths, trust
from conductor.spec.consent import wishes
from conductor.spec.installed import Receipt
from conductor.spec.lock import compare
from conductor.spec.plan import alone
from conductor.spec.trust import Agreement, TrustedFolder
from tests.harness.process.command import environment
from tests.places import DEADLINE

ONE: Final = 'name = "weather"\nversion = "1"\nfile = "proxy.py"\n'


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python_guest: Path) -> None:
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setattr(installed, "held", {})


def component(folder: Path, text: str = "# one\n", manifest: str = ONE) -> str:
    """A component in a folder; its source."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "component.toml").write_text(manifest)
    (folder / "proxy.py").write_text(text)
    return str(folder)


def add(source: str, name: str = "") -> Receipt:
    """Installs a component, as `conductor add` does."""
    with store.incoming() as folder:
        made = install.candidate(sources.parse(source), folder, name)
        install.commit(made)
    return made.receipt


def leftovers() -> list[str]:
    """The entries of the store that no receipt names."""
    named = {each.content for each in store.receipts() if isinstance(each, Receipt)}
    wanted = {"receipts", "lock", *(f"sha256-{digest}" for digest in named)}
    return sorted(set(os.listdir(paths.installed())) - wanted)


def test_a_name_stands_for_what_was_installed(tmp_path: Path) -> None:
    receipt = add(component(tmp_path / "weather"))
    (tmp_path / "weather/proxy.py").write_text("# changed since")
    spec = catalog.resolve("weather")
    assert spec.script == f"{os.path.realpath(receipt.folder)}/proxy.py"
    assert Path(spec.script).read_text() == "# one\n"
    assert (spec.name, spec.source, spec.receipt) == ("weather", "weather", receipt)
    with_options = catalog.resolve("weather,allow=clock,name=other")
    assert (with_options.name, with_options.grants) == ("other", frozenset({"clock"}))
    store.remove("weather")
    with pytest.raises(UsageError, match="neither a component nor a program"):
        catalog.resolve("weather")
    os.close(installed.held.popitem()[1])
    store.prune()
    assert leftovers() == []


def test_a_program_that_was_installed_takes_arguments(tmp_path: Path) -> None:
    manifest = 'name = "weather"\ncommand = ["{python}", "{dir}/proxy.py", "first"]\n'
    add(component(tmp_path / "weather", manifest=manifest))
    command = catalog.resolve("weather --fast").command
    assert command is not None
    assert command[2:] == ["first", "--fast"]


def test_two_names_may_share_content(tmp_path: Path) -> None:
    source = component(tmp_path / "weather")
    one, two = add(source), add(source, "other")
    assert one.content == two.content
    store.remove("weather")
    assert catalog.resolve("other").script


def test_what_a_chain_uses_stays_until_it_ends(tmp_path: Path) -> None:
    source = component(tmp_path / "weather")
    old = add(source)
    spec = catalog.resolve("weather")  # this process is the chain
    component(tmp_path / "weather", "# two\n")
    new = add(source)
    assert Path(spec.script).read_text() == "# one\n"
    assert leftovers() == [f"sha256-{old.content}"]
    store.remove("weather")
    assert os.path.isdir(old.folder)
    assert not os.path.exists(new.folder)
    for fd in installed.held.values():
        os.close(fd)
    add(component(tmp_path / "other", "# three\n", ONE.replace("weather", "third")))
    assert leftovers() == []


def test_trust_in_content_ends_with_it(tmp_path: Path) -> None:
    receipt = add(component(tmp_path / "weather"))
    real = os.path.realpath(receipt.folder)

    def edit(held: trust.Trust) -> None:
        held.folders[real] = TrustedFolder(trust.now(), device=1, inode=2)
        held.folders["/other"] = TrustedFolder(trust.now(), device=1, inode=2)
        held.agreed["k"] = Agreement(trust.now(), "weather", f"{real}/proxy.py", "0" * 64)
        held.agreed["o"] = Agreement(trust.now(), "weather", "/other/proxy.py", "0" * 64)

    trust.change(edit)
    store.remove("weather")
    held = trust.load()
    assert (list(held.folders), list(held.agreed)) == (["/other"], ["o"])


# -- nothing is believed ---------------------------------------------------------------------------


def change(path: Path, text: str) -> None:
    """Changes a file of content, as another program of the user's can."""
    path.chmod(0o600)
    path.write_text(text)


DAMAGE: Final[dict[str, Callable[[Path], object]]] = {
    "a byte": lambda folder: change(folder / "proxy.py", "# onf\n"),
    "a file more": lambda folder: change_folder(folder, "__pycache__/proxy.pyc"),
    "a link to what it was": lambda folder: folder.symlink_to(folder.rename(folder.parent / "x")),
    "a link": lambda folder: link(folder, folder.parent / "moved.py"),
    "a pipe": lambda folder: os.mkfifo(folder / "pipe"),
    "another mode": lambda folder: (folder / "proxy.py").chmod(0o700),
    "gone": lambda folder: folder.rename(folder.parent / "elsewhere"),
    "no manifest": lambda folder: (folder / "component.toml").unlink(),
    "the manifest": lambda folder: change(folder / "component.toml", ONE + "[rights]\n"),
}


def change_folder(folder: Path, path: str) -> None:
    """Adds a file."""
    (folder / path).parent.mkdir()
    (folder / path).write_text("x")


def link(folder: Path, moved: Path) -> None:
    """Puts a link in the place of a file, to the same content."""
    (folder / "proxy.py").rename(moved)
    (folder / "proxy.py").symlink_to(moved)


@pytest.mark.parametrize("kind", sorted(DAMAGE))
def test_changed_content_is_refused_and_made_whole_again(tmp_path: Path, kind: str) -> None:
    source = component(tmp_path / "weather")
    receipt = add(source)
    Path(receipt.folder).chmod(0o700)
    DAMAGE[kind](Path(receipt.folder))
    with pytest.raises(UsageError, match="the files of the installed component") as error:
        catalog.resolve("weather")
    assert f"`conductor add {source} --name weather`" in error.value.hint
    assert add(source, "weather").content == receipt.content
    assert catalog.resolve("weather").script
    assert not Path(receipt.folder).is_symlink()


RECEIPTS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "a content that is a path": lambda held: held | {"content": "../../etc"},
    "a file elsewhere": lambda held: held | {"file": "../../../etc/passwd"},
    "a version of tomorrow": lambda held: held | {"version": 99},
    "an absolute file": lambda held: held | {"file": "/etc/passwd"},
    "another name": lambda held: held | {"name": "other"},
    "no content": lambda held: {k: v for k, v in held.items() if k != "content"},
}


@pytest.mark.parametrize("kind", sorted([*RECEIPTS, "empty", "large", "no JSON"]))
def test_a_damaged_receipt(tmp_path: Path, kind: str) -> None:
    add(component(tmp_path / "weather"))
    path = Path(installed.receipt_path("weather"))
    plain = {"empty": "", "large": " " * 100_000, "no JSON": "{" * 1000}
    if kind in plain:
        path.write_text(plain[kind])
    else:
        path.write_text(json.dumps(RECEIPTS[kind](json.loads(path.read_text()))))
    with pytest.raises(UsageError, match="the receipt of the installed component") as error:
        catalog.resolve("weather")
    assert "conductor remove weather" in error.value.hint
    assert [type(each) for each in store.receipts()] == [Damaged]
    assert catalog.resolve("datetime").bundled  # others run
    store.remove("weather")
    assert store.receipts() == []


def test_a_receipt_that_is_a_link(tmp_path: Path) -> None:
    add(component(tmp_path / "weather"))
    path = Path(installed.receipt_path("weather"))
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with pytest.raises(UsageError, match="it is a link"):
        catalog.resolve("weather")


@pytest.mark.proves("a trusted place can be")
@pytest.mark.parametrize("place", ["far above", "above", "receipts", "store"])
def test_a_store_that_others_may_write(tmp_path: Path, place: str) -> None:
    source = component(tmp_path / "weather")
    add(source)
    folder = {
        "far above": Path(paths.installed()).parent.parent,
        "above": Path(paths.installed()).parent,
        "receipts": Path(installed.receipts()),
        "store": Path(paths.installed()),
    }[place]
    folder.chmod(0o777)
    for action in (
        lambda: catalog.resolve("weather"),
        lambda: add(source, "other"),
        lambda: store.remove("weather"),
        store.receipts,
    ):
        with pytest.raises(UsageError, match=r"(can|may) be written by other"):
            action()


def test_a_store_that_is_a_link(tmp_path: Path) -> None:
    source = component(tmp_path / "weather")
    add(source)
    real = Path(paths.installed())
    real.rename(tmp_path / "moved")
    real.symlink_to(tmp_path / "moved")
    for action in (lambda: catalog.resolve("weather"), lambda: add(source)):
        with pytest.raises(UsageError, match="is a link"):
            action()


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give a folder away")
def test_a_store_of_another_user(tmp_path: Path) -> None:
    add(component(tmp_path / "weather"))
    os.chown(paths.installed(), 12345, 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        catalog.resolve("weather")


# -- crashes, and others at the same time ----------------------------------------------------------

KILLED: Final = """
import os, sys
from conductor.packages import install, sources, store

def add(source):
    with store.incoming() as folder:
        install.commit(install.candidate(sources.parse(source), folder))

def killed(step, action):
    "Performs an action in a child that is killed before its step-th change; whether it was."
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    left = step
    def counted(real):
        def call(*args, **more):
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(9)
            return real(*args, **more)
        return call
    for name in ("mkdir", "rename", "replace", "unlink", "chmod", "fsync", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    action()
    os._exit(0)

def state():
    from conductor.spec import catalog
    try:
        child = os.fork()  # what is resolved is held: not in this process
        if child == 0:
            try:
                text = open(catalog.resolve("weather").script).read()
            except Exception as error:
                text = f"{type(error).__name__} {error}"
            with open(sys.argv[2], "w") as file:
                file.write(text)
            os._exit(0)
        os.waitpid(child, 0)
    finally:
        text = open(sys.argv[2]).read()
    return "nothing" if "neither a component" in text else text

source = sys.argv[1]
steps = 0
for old, new, action in (
    ("nothing", "# one\\n", lambda: add(source)),
    ("# one\\n", "# two\\n", lambda: add(source)),
    ("# two\\n", "nothing", lambda: store.remove("weather")),
):
    if new != "nothing":
        with open(source + "/proxy.py", "w") as file:
            file.write(new)
    step = 0
    while killed(step, action):
        found = state()
        assert found in (old, new), (step, found)
        step += 1
    assert state() == new, state()
    steps += step
print(steps)
"""


def test_killed_at_any_moment_it_has_all_or_nothing(tmp_path: Path) -> None:
    source = component(tmp_path / "weather")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, source, str(tmp_path / "state")],
        capture_output=True,
        env=environment(),
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) > 30
    assert leftovers() == []


def test_two_adds_at_once(tmp_path: Path) -> None:
    """Of several adds of different things under one name, one wins and the others say so."""
    script = (
        "import sys\nfrom conductor.errors import ConductorError\n"
        "from conductor.packages import install, sources, store\n"
        "with store.incoming() as folder:\n"
        "    made = install.candidate(sources.parse(sys.argv[1]), folder)\n"
        "    print('ready', flush=True)\n    sys.stdin.readline()\n"
        "    try:\n        install.commit(made)\n        print('installed')\n"
        "    except ConductorError as error:\n        print(error.text)\n"
    )
    sources_ = [component(tmp_path / f"w{n}", f"# {n}\n") for n in range(3)]
    sources_.append(sources_[0])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        for source in sources_
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    said = [process.communicate(b"go\n", timeout=DEADLINE)[0].decode() for process in started]
    losers = [text for text in said if text != "installed\n"]
    assert 2 <= len(losers) <= 3
    assert all("another conductor has just changed `weather`" in text for text in losers)
    assert catalog.resolve("weather").script
    assert leftovers() == []


def test_a_store_that_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = component(tmp_path / "weather")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(ConductorError, match="nothing can be written to") as error:
        add(source)
    assert "XDG_DATA_HOME" in error.value.hint


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = component(tmp_path / "weather")
    before = add(source)
    component(tmp_path / "weather", "# two\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConductorError, match="No space left"):
        add(source)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg_data_home"))
    assert installed.read("weather") == before


def test_without_receipts_a_chain_looks_for_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = os.path.lexists

    def lexists(path: str) -> bool:
        asked.append(path)
        return real(path)

    monkeypatch.setattr(os.path, "lexists", lexists)
    catalog.resolve("datetime")
    assert asked == [installed.receipt_path("datetime")]


NAMES: Final = {
    "a bundled one": "datetime",
    "a dot first": ".weather",
    "a known agent": "opencode",
    "a module": "weather.wasm",
    "a path": "a/b",
    "a reserved one": "host",
    "a script": "weather.py",
    "a word with a blank": "a b",
    "an escape": "a\x1b[2J",
    "an option": "-x",
    "climbing": "..",
    "nothing but signs": "@@",
    "too long": "a" * 65,
}


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_a_name_that_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UsageError) as error:
        add(component(tmp_path / "weather"), NAMES[kind])
    assert "--name" in error.value.hint
    assert store.receipts() == []


def test_a_name_that_another_source_has(tmp_path: Path) -> None:
    add(component(tmp_path / "one"))
    with pytest.raises(UsageError, match="is installed already, from") as error:
        add(component(tmp_path / "two"))
    assert "--name" in error.value.hint


def made(source: str, folder: str) -> Candidate:
    """The component that would be installed."""
    return install.candidate(sources.parse(source), folder)


def test_what_changes(tmp_path: Path) -> None:
    wants = ONE + '[rights]\nclock = "to know the time"\n'
    source = component(tmp_path / "weather", "# one\n", wants + '[config]\nplace = "where"\n')
    add(source)
    more = wants.replace("clock", "random").replace('"1"', '"0.9"') + '[config]\nunit = "C or F"\n'
    component(tmp_path / "weather", "# two\n", more)
    with store.incoming() as folder:
        new = made(source, folder)
        assert new.is_older
        assert not new.is_installed
        plans = (wishes.everything(alone(each)) for each in ("weather", new.spec))
        title, digest, *others = compare.diff(*plans)
        assert (title, "digest: sha256:" in digest) == ("  weather:", True)
        assert others == [
            "    rights: + random (manifest)",
            "    rights: - clock",
            "    settings: + unit (any)",
            "    settings: - place (any)",
        ]
