"""The work of an author: `conductor new`, `test`, `check`, `build`, and the proxy behind an
agent."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from conductor.author import project
from conductor.spec.manifest import reading as manifest
from conductor.spec.manifest import section
from tests.e2e.peers import npm
from tests.harness.process.command import COMMAND, Ran, environment
from tests.places import ROOT, checkout_environment

pytestmark = pytest.mark.timeout(600)

LANGUAGES: Final = project.languages()
DIFFERENT_EACH_TIME: Final = ("js",)
"""Languages whose tools put random bytes into a build."""

RUST_TARGET: Final = "wasm32-unknown-unknown"
OFFLINE: Final = {
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "CARGO_NET_OFFLINE": "true",
    "RUSTUP_AUTO_INSTALL": "0",
}
"""Compilers fetch nothing."""

PATIENCE: Final = 500.0
"""Seconds a command may take: a compiler may have to compile its own library first."""


def missing(lang: str) -> str:
    """The program that a template needs and that is not installed here; empty: none."""
    if lang in ("c", "zig"):
        return "" if importlib.util.find_spec("ziglang") else "ziglang"
    if lang == "go":
        found = re.search(r"go1\.(\d+)", _said("go", "version"))
        return "" if found and int(found[1]) >= 24 else "Go 1.24"
    if lang == "rust":
        return "" if _rust_target() else f"Rust with the target {RUST_TARGET}"
    if lang == "js":
        return "" if npm.node_tools() else "Node with npm"
    return "" if lang in ("python", "wat") else lang


def _rust_target() -> bool:
    """Whether the compiler here has the library of the target."""
    root = _said("rustc", "--print", "sysroot").strip() if shutil.which("cargo") else ""
    library = Path(root, "lib", "rustlib", RUST_TARGET, "lib")
    return bool(root) and any(library.glob("libstd-*.rlib"))


def install(lang: str, folder: Path) -> None:
    """Installs what a project's README has an author install in the project itself."""
    tools = npm.node_tools()
    if lang == "js" and tools is not None:
        modules = npm.install(tools[1], ROOT / "guest_sdk" / "javascript")
        (folder / "node_modules").symlink_to(modules, target_is_directory=True)


def _said(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    env = {**os.environ, **OFFLINE}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout


class Author:
    """Somebody in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state = folder.parent / f"{folder.name}-state"

    def __call__(self, *arguments: str, at: str = "") -> Ran:
        """Runs `conductor ARGUMENTS` in a folder."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=self.folder / at,
            env=environment(XDG_STATE_HOME=str(self._state), **OFFLINE),
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def ok(self, *arguments: str, at: str = "") -> str:
        """Runs a command that must go well; the result is its output."""
        ran = self(*arguments, at=at)
        assert ran.code == 0, f"{ran.out}\n{ran.err}"
        return ran.out


def build(author: Author) -> str:
    """Builds `mine`; the result is the output."""
    ran = author("test", "--build", "--only", "scenarios", "mine")
    assert ran.code == 0, ran.err
    return ran.out


@pytest.fixture
def author(tmp_path: Path) -> Author:
    """An author."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Author(folder)


@pytest.mark.usefixtures("python_guest")
def test_from_an_empty_folder_to_a_proxy_behind_an_agent(author: Author) -> None:
    made = author.ok("new", "my-proxy")
    assert "my-proxy/proxy.py" in made
    assert made.endswith("conductor exec . demo -p hi\n")
    assert author.ok("test", at="my-proxy").splitlines() == [
        "passed  test-scenarios/prompt.txt: 4 deliveries",
        "my-proxy: 36 passed, 1 skipped",
        "skipped: end-of-input: a guest has no input that ends",
    ]
    built = author("test", "--build", "--only", "scenarios", at="my-proxy")
    assert "nothing to compile; it loads" in built.out
    checked = author.ok("test", "--only", "handshake", "--only", "turn", ".", at="my-proxy")
    assert checked.endswith("my-proxy: 2 passed\n")
    first = author("exec", ".", "demo", "-p", "hi", at="my-proxy")
    assert (first.code, first.out) == (0, "Answer briefly.\nhi\n")
    assert first.err == ""
    second = author("exec", ".,config.reminder=Be kind.", "demo", "-p", "hi", at="my-proxy")
    assert (second.out, second.err) == ("Be kind.\nhi\n", "")
    wrong = author("exec", ".,config.remindre=x", "demo", "-p", "hi", at="my-proxy")
    wrong.assert_error(2, "has no setting `remindre`", "did you mean `reminder`?")
    (author.folder / "my-proxy" / "proxy.py").unlink()
    gone = author("exec", ".", "demo", "-p", "hi", at="my-proxy")
    gone.assert_error(2, "`my-proxy` has no file `proxy.py`", "`file` in ./component.toml says")


@pytest.mark.usefixtures("python_guest")
def test_an_edit_shows_in_the_transcripts(author: Author) -> None:
    author.ok("new", "my-proxy")
    source = author.folder / "my-proxy" / "proxy.py"
    source.write_text(source.read_text().replace("Answer briefly.", "Answer in verse."))
    transcript = author.folder / "my-proxy" / "test-scenarios" / "prompt.txt"
    before = transcript.read_text()
    ran = author("test", at="my-proxy")
    ran.assert_error(1, "1 of 1 scenario differs", "--update")
    assert "FAILED  test-scenarios/prompt.txt\n    test-scenarios/prompt.txt:6\n    > p{" in ran.out
    old, new = re.findall(r"^    ([-+] .*)$", ran.out, re.MULTILINE)
    assert ("briefly" in old, "in verse" in new) == (True, True)
    caret = ran.out.splitlines()[ran.out.splitlines().index(f"    {new}") + 1]
    assert new[len(caret) - 5 :].startswith("in verse")
    told = json.loads(author("test", "--json", at="my-proxy").out)
    (row,) = told["scenarios"]
    assert (told["ok"], row["outcome"], row["deliveries"]) == (False, "failed", 4)
    (difference,) = row["differences"]
    assert difference["line"] == 6
    assert "in verse" in difference["returned"][0]
    assert author.ok("test", "--update", "my-proxy").startswith(
        "updated my-proxy/test-scenarios/prompt.txt: 1 delivery\n"
    )
    assert transcript.read_text() == before.replace("Answer briefly.", "Answer in verse.")
    author.ok("test", "my-proxy/test-scenarios/prompt.txt")
    source.write_text("proxy = 1 +\n")
    broken = author("test", at="my-proxy")
    assert (broken.code, "SyntaxError" in broken.out + broken.err) == (1, True)
    author("test", "--build", at="my-proxy").assert_error(1, "SyntaxError")


def test_the_same_proxy_in_a_test_without_a_sandbox(author: Author) -> None:
    author.ok("new", "my-proxy")
    done = subprocess.run(
        [sys.executable, "test_proxy.py"],
        cwd=author.folder / "my-proxy",
        env=checkout_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_template_is_complete(author: Author, lang: str) -> None:
    author.ok("new", "a-b", "--lang", lang)
    folder = author.folder / "a-b"
    found = manifest.load(str(folder / "component.toml"))
    assert (found.name, found.version, found.licence) == ("a-b", "0.1.0", "MIT OR Apache-2.0")
    assert all((found.rights or {}).values())
    assert bool(found.build.command) is not found.scripted
    for name in ("README.md", ".gitignore", found.source or str(found.file)):
        assert (folder / name).is_file(), name
    assert list(folder.glob("test-scenarios/*.txt"))
    for path in folder.rglob("*"):
        assert "@" not in path.name
        assert path.is_dir() or not re.search(r"@(NAME|IDENT)@", path.read_text("utf-8")), path
    for step in project.template(lang)["next"]:
        assert step.startswith(("conductor ", "pip ", "rustup ", "npm "))


@pytest.mark.parametrize("lang", [lang for lang in LANGUAGES if lang != "python"])
def test_what_is_compiled_is_built_recorded_and_played(author: Author, lang: str) -> None:
    if missing(lang):
        pytest.skip(f"{missing(lang)} is not installed")
    author.ok("new", "mine", "--lang", lang)
    author("test", at="mine").assert_error(
        2, "is not built", "mine.wasm", "conductor test --build ."
    )
    path = author.folder / "mine" / "component.toml"
    before = path.read_text()
    install(lang, path.parent)
    assert "recorded" in build(author)
    digest = manifest.load(str(path)).sha256
    assert path.read_text() == before.replace('sha256 = ""', f'sha256 = "{digest}"')
    word = "recorded" if lang in DIFFERENT_EACH_TIME else "as recorded"
    assert word in build(author)
    assert "passed  mine/test-scenarios/" in author.ok("test", "mine", "--only", "scenarios")
    checked = author.ok("test", "--only", "ids", "--only", "turn", "./mine")
    assert checked.endswith("mine: 2 passed\n")
    said = author.ok("exec", "./mine/", "demo", "-p", "hi")
    assert said == ("hi\n" if lang == "wat" else "Answer briefly.\nhi\n")
    module = author.folder / "mine" / "mine.wasm"
    module.write_bytes(module.read_bytes() + b"\0\1\0")
    author("exec", "./mine/", "demo", "-p", "hi").assert_error(
        2, "not the file its manifest records", "conductor test --build"
    )


def test_a_language_by_its_other_name(author: Author) -> None:
    author.ok("new", "mine", "--lang", "javascript")
    made = json.loads((author.folder / "mine" / "package.json").read_text())
    sdk = json.loads((ROOT / "guest_sdk" / "javascript" / "package.json").read_text())
    assert made["devDependencies"] == sdk["devDependencies"]
    shown = " ".join(author.ok("new", "--help").split())
    assert all(lang in shown for lang in LANGUAGES)
    unknown = author("new", "other", "--lang", "cobol")
    unknown.assert_error(2, "no template for `cobol`", f"languages are: {', '.join(LANGUAGES)}")


def test_nothing_is_overwritten(author: Author) -> None:
    author.ok("new", "mine", "--lang", "wat")
    author("new", "mine").assert_error(2, "`mine` exists already", "nothing is overwritten")
    (author.folder / "empty").mkdir()
    author.ok("new", "empty", "--lang", "wat")


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("new", "../up"), ("cannot be a component's name",)),
        (("new", "Datetime"), ("`datetime` is the name of a component", "take another name")),
        (("new",), ("`conductor new` needs a NAME",)),
        (("test",), ("`./` is a folder without a proxy", "proxy.py", "`conductor new NAME`")),
        (("test", "nowhere"), ("`nowhere` is neither",)),
        (("test", "--build"), ("there is no component.toml in `.`",)),
        (("test", "./pyproject.toml"), ("`./pyproject.toml` is neither",)),
        (("test", "--only", "meta", "./x.txt"), ("leave nothing to test of ./x.txt", "rules are")),
        (("test", "--update", "./x.py"), ("leave nothing to test of ./x.py", "for scenarios")),
    ],
)
def test_what_cannot_be(
    author: Author, arguments: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    author(*arguments).assert_error(2, *fragments)


@pytest.mark.parametrize(
    ("text", "code", "fragments"),
    [
        ('command = ["p"]', 2, ("`x` is a program",)),
        ('file = "x.wasm"', 2, ("has no `[build]`",)),
        (
            'file = "x.wasm"\n[build]\nneeds = "cobc"\ncommand = ["no-such-compiler"]',
            2,
            ("`no-such-compiler` is no program on PATH", "it needs: cobc"),
        ),
        (
            'file = "x.wasm"\n[build]\ncommand = ["no-such-compiler"]',
            2,
            ("`no-such-compiler` is no program on PATH", "install it"),
        ),
        (
            'file = "x.wasm"\n[build]\ncommand = ["{python}", "-c", "raise SystemExit(3)"]',
            1,
            ("building `x` failed: exit code 3", "its output above says why"),
        ),
        (
            'file = "x.wasm"\n[build]\ncommand = ["{python}", "-c", ""]',
            1,
            ("made no `x.wasm`",),
        ),
        (
            'file = "x.wasm"\n[build]\nmade = "out/x"\ncommand = ["{python}", "-c", ""]',
            1,
            ("made no `out/x`", "look at `made`"),
        ),
        (
            (
                'file = "x.wasm"\n[build]\n'
                """command = ["{python}", "-c", "open('x.wasm', 'w').write('no')"]"""
            ),
            1,
            ("`x.wasm`: ",),
        ),
    ],
)
def test_builds_that_fail(author: Author, text: str, code: int, fragments: tuple[str, ...]) -> None:
    (author.folder / "component.toml").write_text(f'name = "x"\n{text}\n')
    author("test", "--build").assert_error(code, *fragments)
    assert "sha256" not in (author.folder / "component.toml").read_text()


def test_what_a_command_leaves_elsewhere_is_copied(author: Author) -> None:
    author.ok("new", "mine", "--lang", "wat")
    path = author.folder / "mine" / "component.toml"
    text = path.read_text().replace("{file}", "out.bin")
    path.write_text(text.replace("[build]", '[build]\nmade = "out.bin"'))
    for _ in range(2):
        assert "recorded" in build(author)
        (author.folder / "mine" / "mine.wasm").write_bytes(b"broken")
    assert "as recorded" in build(author)
    module = author.folder / "mine" / "mine.wasm"
    made = (author.folder / "mine" / "out.bin").read_bytes()
    assert module.read_bytes().startswith(made)


def test_a_built_module_describes_itself(author: Author) -> None:
    """Wherever it is copied to, with the digest that the folder's manifest records."""
    author.ok("new", "mine", "--lang", "wat")
    build(author)
    folder = author.folder / "mine"
    within = section.find(str(folder / "mine.wasm"))
    assert within is not None
    assert b"sha256" not in within
    lines = (folder / "component.toml").read_text().splitlines(keepends=True)
    assert within.decode() == "".join(one for one in lines if not one.startswith("sha256"))
    shutil.copy(folder / "mine.wasm", author.folder / "theirs.wasm")
    facts = json.loads(author.ok("inspect", "--json", "./theirs.wasm"))
    assert (facts["version"], list(facts["wants"]["rights"])) == ("0.1.0", ["full"])
    assert "full" not in facts["policy"]["rights"]
    told = author("exec", "./theirs.wasm", "demo", "-p", "hi").err
    assert "theirs: it does not get what it asks for: `full`" in told


def test_a_mistake_in_webassembly_text_is_told_with_its_place(author: Author) -> None:
    author.ok("new", "mine", "--lang", "wat")
    build(author)
    module, source = author.folder / "mine" / "mine.wasm", author.folder / "mine" / "mine.wat"
    built = module.read_bytes()
    source.write_text("(module\n  (fnuc))\n")
    wrong = author("test", "--build", at="mine")
    assert wrong.code == 1
    assert "`mine.wat` is no WebAssembly text: " in wrong.err
    assert "--> mine.wat:2:4" in wrong.err
    assert "Traceback" not in wrong.err
    assert module.read_bytes() == built


def test_what_is_not_granted_is_shown_and_refused(author: Author) -> None:
    author.ok("new", "mine", "--lang", "wat")
    build(author)
    path = author.folder / "mine" / "component.toml"
    asked = """[rights]
"change:words" = "to sign"
"change:tool-calls" = "to sign there too"
clock = "to tell the time"
"""
    path.write_text(path.read_text().replace("[rights]\n", asked))
    author.ok("trust", "--remove", "./mine")  # `conductor new` has made it here
    facts = json.loads(author.ok("inspect", "--json", "./mine"))
    assert facts["wants"]["rights"]["clock"] == "to tell the time"
    assert {"change:words", "change:tool-calls", "clock"} <= {*facts["wants"]["lacking"]}
    shown = author.ok("inspect", "--all", "./mine")
    assert "asks for rights that it does not get" in shown
    assert "NOT GIVEN: clock, to tell the time" in shown
    assert "NOT GIVEN: change:words, to sign" in shown
    assert "NOT GIVEN: change:tool-calls, to sign there too" in shown
    told = author("exec", "./mine/", "demo", "-p", "hi").err
    assert "it does not get what it asks for: " in told
    assert "to sign" not in told
    again = author("exec", "./mine/,allow=clock+full+change:tool-calls", "demo", "-p", "hi")
    assert (again.code, again.err) == (0, "")


@pytest.mark.proves("from anybody to your terminal", "from a stranger's folder")
def test_the_folder_of_a_stranger_brings_no_surprise(author: Author) -> None:
    """The error says that the folder is a program. The folder cannot speak to the terminal, and
    leads nowhere else."""
    folder = author.folder / "theirs"
    (folder / "test-scenarios").mkdir(parents=True)
    (folder / "proxy.py").write_text(
        "import sys\n"
        "for line in sys.stdin:\n"
        "    print({'p': 's', 's': 'p', 'c': 'c'}[line[0]] + line[1:], end='', flush=True)\n"
    )
    (folder / "component.toml").write_text(
        'name = "theirs"\nversion = "1\\u001b[31m\\nerror: forged"\ndialect = "channel"\n'
        'command = ["{python}", "{dir}/proxy.py"]\n'
        '[rights]\n"see:prompts" = "to know\\nhint: forged too\\u001b[2J"\n'
    )
    odd = folder / "test-scenarios" / "a\x1b[31m\nerror: forged.txt"
    odd.write_text("# nothing is given\n")
    for command in (["test"], ["test", "--only", "handshake"], ["exec", "-p", "hi"]):
        author(*command, "./theirs").assert_error(
            2, "is a program that its component.toml names", "`conductor trust theirs`"
        )
    author.ok("trust", "theirs")
    assert author.ok("test", "--only", "scenarios", "./theirs") == (
        "passed  theirs/test-scenarios/a\\u{1b}[31m\\u{a}error: forged.txt: 0 deliveries\n"
        "note    no transcript uses `see:prompts` of its rights\n"
    )
    assert author("test", "--only", "handshake", "./theirs").err == ""
    outside = author.folder / "outside.txt"
    outside.write_text("> p{}\n< s{}\n")
    (folder / "test-scenarios" / "z.txt").symlink_to("../../outside.txt")
    author("test", "--update", "./theirs").assert_error(
        2, "z.txt` is a link, and links in the folder"
    )
    assert outside.read_text() == "> p{}\n< s{}\n"
    os.mkfifo(folder / "test-scenarios" / "b.txt")
    author("test", "./theirs").assert_error(2, "b.txt` is no ordinary file")


def test_a_program_can_be_played_and_tried_by_another_name(author: Author) -> None:
    folder = author.folder / "t"
    folder.mkdir()
    (folder / "a.txt").write_text('> p{"id":1,"method":"_x"}\n< s{"id":1,"method":"_x"}\n')
    assert "passed  t/a.txt" in author.ok("test", "--component", "passthrough", "t")
    (folder / "a.txt").write_text('> p{"id":1,"method":"_x"}\n< s{"method":"_x", "id":1}\n')
    played = ("test", "--component", "passthrough", "t")
    author(*played).assert_error(1, "1 of 1 scenario differs")
    author.ok(*played, "--match", "json")
    author(*played, "--match", "x").assert_error(2, "invalid value `x` for `--match`")
    author("test", "--component", "demo", "t").assert_error(2, "no deliveries to play")
    (folder / "b.txt").write_text("nonsense\n")
    author("test", "--component", "passthrough", "t/b.txt").assert_error(2, "t/b.txt:1: neither")
