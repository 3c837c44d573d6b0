"""`component.toml`: what is taken, what is refused and where, and what a manifest can grant."""

import hashlib
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conductor.author.build import with_digest, without_digest
from conductor.core.policy import words
from conductor.core.policy.policy_words import PolicyWords
from conductor.errors import UsageError
from conductor.spec import catalog, paths, settings, toml_files
from conductor.spec.manifest import drawn, reading, section
from conductor.spec.manifest.reading import Manifest, Setting
from tests.docs import tables
from tests.places import ROOT

DATETIME = paths.components_folder() / "datetime" / "datetime.wasm"
HEAD = 'name = "x"\nfile = "datetime.wasm"\n'


def parse(text: str) -> Manifest:
    """A manifest out of its text."""
    return reading.parse(text.encode())


def test_everything_it_can_say() -> None:
    found = parse(
        HEAD
        + """version = "1.0"
description = "d"
licence = "MIT"
kind = "proxy"
carrier = "core"
source = "x.c"
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
fails = "closed"
ids = "kept"
[rights]
context = "to see prompts"
"answer:prompts" = "to refuse them"
"prompt:within" = "to ask first"
"command:review" = "to list them"
"command:plan" = "to list them"
"change:tool-calls" = "to sign them"
clock = "to tell the time"
"read:**/AGENTS.md" = "to show them"
"web:api.example.com" = "to ask"

[config]
short = "what it means"
[config.mode]
type = "string"
description = "how strict"
default = "lax"
enum = ["lax", "strict"]
[limits]
memory = "16MiB"
cpu_ms = 50
[build]
command = ["cc", "{source}"]
needs = "a compiler"
[test]
match = "json"
"""
    )
    assert found.rights is not None
    assert [*found.rights][:2] == ["context", "answer:prompts"]
    assert found.rights["clock"] == "to tell the time"
    assert (found.fails, found.ids) == ("closed", "kept")
    assert found.limits == {"memory_bytes": 16 * 1024**2, "cpu_ms": 50}
    assert found.settings["short"] == Setting(description="what it means")
    assert found.settings["mode"].enum == ["lax", "strict"]
    assert (found.sandboxed, found.scripted) == (True, False)
    assert parse('name = "x"\nfile = "x.py"').scripted
    assert not parse('name = "x"\ncommand = ["x"]').sandboxed


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("name = ", "Invalid value", "TOML"),
        ("file = 'a.wasm'", "`name` is missing", 'name = "…"'),
        (HEAD + "versoin = '1'", "line 3: a manifest has no key `versoin`", "`version`?"),
        (HEAD + "[wants]\nprofile = 'x'", "line 3: there is no table `[wants]`", "[rights]"),
        (HEAD + "[config.a]\n[config.b]\ntyp = 1", "line 5: [config.b] has no key `typ`", "`type`"),
        (HEAD + "[biuld]\n", "line 3: a manifest has no key `biuld`", "`build`?"),
        (HEAD + "version = 1", "line 3: `version` should be a valid string", ""),
        (HEAD + "[config]\na = 'x'\nb = 3", "line 5: `config.b` should be a valid string", ""),
        (
            HEAD + 'description = """\na\nb"""\n\nkind = "x"',
            "line 7: `kind` should be 'proxy' or 'agent'",
            "",
        ),
        (HEAD + "carrier = 'x'", "line 3: `carrier` should be 'core', 'component'", ""),
        (HEAD + "carrier = 'python'", "line 3: `carrier` is `python`, but", ""),
        (HEAD + "dialect = 'x'", "line 3: `dialect` cannot be `x`", "channel"),
        (HEAD + "command = ['x']", "line 3: a manifest names exactly one program", "command"),
        ("name = 'x'", "line 1: a manifest names exactly one program or module", "file"),
        ("name = 'a b'\nfile = 'a.wasm'", "line 1: `name` is up to 64", ""),
        ("name = 'x'\nfile = '../a.wasm'", "line 2: `file` is a path within", ""),
        ("name = 'x'\nfile = '/a.wasm'", "line 2: `file` is a path within", ""),
        (HEAD + "kind = 'agent'", "line 3: an agent cannot be sandboxed", "command"),
        (HEAD + "sha256 = 'abc'", "line 3: `sha256` is 64", "conductor test --build"),
        (HEAD + "[rights]\nclok = 'x'", "line 4: no right `clok`", "`clock`?"),
        (HEAD + "[rights]\nweb = 'x'", "line 4: `web` alone is no right: web:browser", "help"),
        (HEAD + "[rights]\nclock = ' '", "line 4: `clock` is requested without", "users"),
        (HEAD + "[rights]\nclock = 1", "line 4: `rights.clock` should be a valid string", ""),
        (HEAD + "[rights]\nkv = 'x'", "line 4: `kv` is written `storage` now", "help rights"),
        (HEAD + "[rights]\naway = 'x'", "line 4: `away` is a set for `deny` alone", "help rights"),
        (
            HEAD + "[rights]\n'change:permissions' = 'y'",
            "is not to be had: with `refuse:permissions`",
            "help rights",
        ),
        (
            HEAD + "[rights]\n'up:session/update:copy' = 'y'",
            "`up:session/update:copy` is written `see:updates` now",
            "help rights",
        ),
        (HEAD + "fails = 'x'", "line 3: `fails` should be 'open' or 'closed'", ""),
        (HEAD + "ids = 'x'", "line 3: `ids` should be '' or 'kept'", ""),
        (HEAD + "[limits]\nmemory = '3x'", "line 4: `memory`: a size is", ""),
        (HEAD + "[limits]\nfoo = 3", "line 4: `foo`: limits are", ""),
        (
            HEAD + "[config.a]\ntype = 'text'",
            "line 4: `config.a.type` should be 'any', 'string'",
            "",
        ),
        (
            HEAD + "[config.a]\ntype = 'integer'\ndefault = 'x'",
            "line 3: `a`: 'x' is no integer",
            "",
        ),
        (HEAD + "[config.a]\nrequired = true\ndefault = 1", "line 4: `a` is required", ""),
        (HEAD + "[config.a]\nenum = [1]\ndefault = 2", "line 5: the default of `a`", ""),
        (HEAD + "[config]\n'a-b' = 'x'", "line 4: the setting `a-b` cannot be given", ""),
        (HEAD + "[test]\nmatch = 'x'", "line 4: `test.match` should be 'bytes' or 'json'", ""),
        ("# " + "x" * 70_000, "a manifest is at most", ""),
        (HEAD + ".".join("a" * 20_000) + " = 1", "line 3: a line of a manifest is at most", ""),
        (HEAD + "[config]\na = " + "[\n" * 20_000, "it nests too deeply", "tables"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert said in caught.value.text
    assert caught.value.text.startswith("component.toml")
    assert hint in caught.value.hint
    assert caught.value.hint


def test_the_line_of_a_mistake_is_found_in_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    loads = tomllib.loads

    def counted(text: str) -> dict[str, Any]:
        read.append(len(text))
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", counted)
    many = "".join(f"a{number} = 'x'\n" for number in range(2000))
    with pytest.raises(UsageError, match=r"^component\.toml, line 2004: `config\.bad` should be"):
        parse(HEAD + "[config]\n" + many + "bad = 3")
    in_one_value = 'description = """' + "\n" * 30_000 + '"""\n'
    with pytest.raises(UsageError, match=r"^component\.toml(, line \d+)?: `version` should be"):
        parse(HEAD + in_one_value + "version = 3")
    assert sum(read) < 2 * 1024 * 1024


def test_what_is_no_utf8() -> None:
    with pytest.raises(UsageError, match="is no text in UTF-8"):
        reading.parse(b'name = "\xff"')


def test_every_bundled_manifest_is_taken() -> None:
    for name in catalog.bundled():
        found = catalog.bundled_manifest(name)
        assert found is not None
        assert (found.name, bool(found.version), bool(found.licence)) == (name, True, True)


# -- what it comes to ----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stranger's component that asks for a lot."""
    shutil.copy(DATETIME, tmp_path)
    (tmp_path / "component.toml").write_text(
        HEAD
        + """fails = "closed"
[rights]
observer = "it is what it is for"
"change:prompts" = "to add to them"
"change:words" = "to sign them"
"see:updates" = "to read them"
"change:tool-calls" = "to sign them too"
clock = "to tell the time"

[limits]
memory_bytes = 1048576
cpu_ms = 60000
"""
    )
    return tmp_path


def test_a_strangers_manifest_grants_nothing(folder: Path) -> None:
    spec = catalog.resolve(f"{folder}/")
    assert (spec.name, spec.wasm) == ("x", str(folder / "datetime.wasm"))
    assert spec.grants == frozenset()
    assert "clock" not in spec.policy.rights
    assert spec.manifest_path == str(folder / "component.toml")


def test_it_narrows(folder: Path) -> None:
    spec = catalog.resolve(f"{folder}/component.toml")
    assert spec.policy.rights == ("observer", "change:prompts", "see:updates")
    assert spec.policy.fails == "closed"
    assert spec.limits == {"memory_bytes": 1048576, "cpu_ms": 1000}


def test_what_the_user_says_counts(folder: Path) -> None:
    spec = catalog.resolve(f"{folder}/,only=observer+clock,memory=2MiB,name=y")
    assert (spec.name, spec.policy.rights) == ("y", ("observer", "clock"))
    assert spec.grants == frozenset({"clock"})
    assert spec.limits["memory_bytes"] == 2 * 1024**2
    more = catalog.resolve(f"{folder}/,allow=change:words+change:tool-calls").policy
    held = ("observer", "change:prompts", "see:updates")
    assert more.rights == (*held, "change:words", "change:tool-calls")


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("", ()),
        ("none", ("none",)),
        ("observer", ("observer",)),
        ("context", ("context",)),
        ("serve:tools", ("serve:tools",)),
        ("filter", ("context", "see:updates", "see:permissions")),
        ("full", ("context", "see:updates", "see:permissions", "see:*")),
        ("prompt:anytime", ()),
        ("clock", ()),
    ],
)
def test_a_stranger_gets_what_it_asks_for_up_to_context_and_sight(
    folder: Path, asked: str, given: tuple[str, ...]
) -> None:
    asks = f"'{asked}' = 'why'" if asked else ""
    (folder / "component.toml").write_text(HEAD + f"[rights]\n{asks}")
    assert catalog.resolve(f"{folder}/").policy == PolicyWords(given)
    assert catalog.resolve(f"{folder}/,only=full").policy == PolicyWords(("full",))
    assert catalog.resolve(f"{folder}/datetime.wasm").policy == PolicyWords(given)
    shutil.copy(folder / "datetime.wasm", folder / "other.wasm")
    assert catalog.resolve(f"{folder}/other.wasm").policy == PolicyWords(("context",))


def test_the_manifest_beside_a_python_file_counts_before_its_source(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("proxy = Proxy('x', version='1')")
    (tmp_path / "component.toml").write_text("name = 'n'\nfile = 'x.py'\n[rights]\n")
    spec = catalog.resolve(str(tmp_path / "x.py"))
    assert (spec.name, spec.policy) == ("x", PolicyWords(()))


# -- without a manifest of its own ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "given", "asks"),
    [
        ("", PolicyWords(), None),
        ("proxy = Proxy('x')", PolicyWords(), None),
        ("proxy = Proxy('x', rights={'observer': 'x'})", PolicyWords(("observer",)), {"observer"}),
        (
            "proxy = Proxy('x', rights={'serve:tools': 'x', 'storage': 'x'})",
            PolicyWords(("serve:tools",)),
            {"serve:tools", "storage"},
        ),
        (
            "proxy = Proxy('x', rights={'full': 'x'})",
            PolicyWords(("context", "see:updates", "see:permissions", "see:*")),
            {"full"},
        ),
        (
            "proxy = Proxy('x', rights={}, version=3, settings={[]: 'x'})",
            PolicyWords(()),
            set(),
        ),
        (
            "P = {'observer': 'x'}\nproxy = Proxy('x', rights=P)",
            PolicyWords(("observer",)),
            {"observer"},
        ),
        ("proxy = Proxy('x', rights=chosen('observer'))", PolicyWords(), None),
        ("proxy = Proxy('x', rights={'observer'", PolicyWords(), None),
    ],
)
def test_what_a_source_declares_is_given_and_no_more(
    tmp_path: Path, source: str, given: PolicyWords, asks: set[str] | None
) -> None:
    path = tmp_path / "x.py"
    path.write_text(source)
    spec = catalog.resolve(str(path))
    assert spec.policy == given
    assert (spec.manifest is None) == (asks is None)
    assert spec.manifest is None or {*(spec.manifest.rights or {})} == asks
    assert spec.grants == frozenset()
    assert catalog.resolve(f"{path},only=full").policy == PolicyWords(("full",))


def test_a_module_describes_itself(tmp_path: Path) -> None:
    module = tmp_path / "m.wasm"
    shutil.copy(DATETIME, module)
    plain = module.read_bytes()
    assert section.find(str(module)) is None
    assert catalog.resolve(str(module)).policy == PolicyWords()
    text = HEAD + "[rights]\nobserver = 'why'\n[config.a]\ntype = 'integer'\n[limits]\ncpu = 5\n"
    section.embed(str(module), b"other")
    section.embed(str(module), text.encode())
    assert module.read_bytes().startswith(plain)
    assert module.read_bytes().count(b"conductor.manifest") == 1
    for component in (str(module), f'{{"wasm": "{module}"}}'):
        spec = catalog.resolve(component)
        assert (spec.name, spec.policy.rights, spec.limits) == ("m", ("observer",), {"cpu_ms": 5})
        assert spec.schema.keys() == {"a"}
        assert spec.manifest_path == ""
    assert catalog.resolve(f"{module},only=full").policy.rights == ("full",)
    section.embed(str(module), b"x" * 200_000)
    assert section.find(str(module)) == b"x" * (64 * 1024 + 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 3", "m.wasm, section `conductor.manifest`, line 1: `name`"),
        ("name = 'x'\ncommand = ['sh']", "m.wasm` is that of a program"),
        (HEAD + f"sha256 = '{'0' * 64}'", "is not the file its manifest records"),
    ],
)
def test_a_module_that_describes_itself_badly(tmp_path: Path, text: str, said: str) -> None:
    module = tmp_path / "m.wasm"
    shutil.copy(DATETIME, module)
    section.embed(str(module), text.encode())
    with pytest.raises(UsageError, match=re.escape(said)):
        catalog.resolve(str(module))


@pytest.mark.parametrize("tail", [b"\0", b"\0\xff\xff\xff\xff\xff", b"\0\x7fxx", b"\0\0\1\0"])
def test_a_module_that_ends_badly_has_no_manifest(tmp_path: Path, tail: bytes) -> None:
    module = tmp_path / "m.wasm"
    module.write_bytes(DATETIME.read_bytes() + tail)
    assert section.find(str(module)) is None


def test_the_manifest_of_a_folder_counts_more_than_the_one_within(folder: Path) -> None:
    section.embed(str(folder / "datetime.wasm"), (HEAD + "[rights]\n").encode())
    assert catalog.resolve(f"{folder}/").policy.rights[0] == "observer"


def test_a_program_is_narrowed_too(tmp_path: Path) -> None:
    text = 'name = "p"\ncommand = ["{python}", "{dir}/p.py"]\ndialect = "acp"\n'
    (tmp_path / "component.toml").write_text(text)
    spec = catalog.resolve(f"{tmp_path}/")
    assert (spec.policy.enforced, spec.dialect, spec.name) == (False, "acp", "p")
    assert spec.command is not None
    assert spec.command[1] == str(tmp_path / "p.py")
    (tmp_path / "component.toml").write_text(text + "[rights]\nfilter = 'why'")
    assert catalog.resolve(f"{tmp_path}/").policy.rights == ("filter",)
    turns = "{}[rights]\ncontext = 'why'\n'prompt:within' = 'to ask first'"
    (tmp_path / "component.toml").write_text(text + turns.format("ids = 'kept'\n"))
    assert catalog.resolve(f"{tmp_path}/").policy.rights == ("context", "prompt:within")
    (tmp_path / "component.toml").write_text(text + turns.format(""))
    with pytest.raises(UsageError, match="`p` is a program that may pass `session/prompt` on"):
        catalog.resolve(f"{tmp_path}/")


def test_the_recorded_digest_holds(folder: Path) -> None:
    digest = hashlib.sha256(DATETIME.read_bytes()).hexdigest()
    (folder / "component.toml").write_text(HEAD + f'sha256 = "{digest}"')
    catalog.resolve(f"{folder}/")
    (folder / "component.toml").write_text(HEAD + f'sha256 = "{"0" * 64}"')
    with pytest.raises(UsageError, match="is not the file its manifest records") as caught:
        catalog.resolve(f"{folder}/")
    assert "conductor test --build" in caught.value.hint


def test_what_is_bundled_gets_what_it_asks_for() -> None:
    spec = catalog.resolve("datetime")
    assert spec.grants == frozenset({"clock"})
    assert (spec.policy.rights, spec.manifest_path) == (("change:prompts", "clock"), "")
    assert catalog.resolve("datetime,only=observer").policy.rights == ("observer",)
    redact = catalog.resolve("redact").policy
    assert {"answer:prompts", "change:words", "change:tool-calls"} <= {*redact.rights}
    assert redact.fails == "closed"
    narrow = catalog.resolve("redact,only=observer").policy
    assert narrow == PolicyWords(("observer",), fails="closed")


@pytest.mark.parametrize("name", catalog.bundled())
def test_what_is_bundled_asks_for_nothing_that_its_sets_give(name: str) -> None:
    found = catalog.bundled_manifest(name)
    assert found is not None
    sets = [one for one in found.rights or () if words.members(one) != (one,)]
    for word in found.rights or ():
        others = [one for one in sets if one != word]
        assert words.lacking([word], others), f"{word} is within the others"


def test_gatekeepers_fail_closed() -> None:
    closed = {name for name in catalog.bundled() if catalog.resolve(name).policy.fails == "closed"}
    assert closed == {
        "redact", "rate-limit", "permission-guard", "hooks", "tool-filter", "budget", "decide",
    }  # fmt: skip


# -- settings ------------------------------------------------------------------------------------

SCHEMA = {
    "mode": Setting(type="string", enum=["lax", "strict"], default="lax", description="how"),
    "count": Setting(type="integer", required=True, description="how many"),
    "ratio": Setting(type="number"),
    "on": Setting(type="boolean"),
    "list": Setting(type="array"),
    "table": Setting(type="object"),
    "free": Setting(),
}


def test_settings_that_fit() -> None:
    given = {"count": 1, "ratio": 1, "on": True, "list": [], "table": {}, "free": None}
    assert settings.checked(SCHEMA, given, "x") == {"mode": "lax", **given}
    assert settings.checked({}, {"a": 1}, "x") == {"a": 1}


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        ({"count": 1, "mdoe": "lax"}, "`x` has no setting `mdoe`", "did you mean `mode`?"),
        ({"count": 1, "zzz": 1}, "`x` has no setting `zzz`", "settings are: mode, count"),
        ({}, "`x` needs the setting `count`: how many", ",config.count=VALUE"),
        ({"count": "1"}, "the setting `count` of `x` must be of type integer, not '1'", "how many"),
        ({"count": True}, "type integer", ""),
        ({"count": 1, "ratio": False}, "type number", ""),
        ({"count": 1, "mode": "loose"}, "cannot be 'loose'", "'lax', 'strict'"),
    ],
)
def test_settings_that_do_not(given: dict[str, object], said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings.checked(SCHEMA, given, "x")
    assert said in caught.value.text
    assert hint in caught.value.hint


# -- the digest in it ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sha256 = ''  # of the module\n[rights]\n", 'sha256 = "{}"  # of the module\n[rights]\n'),
        ("\n# why\n[rights]\n", "\n# why\n[rights]\n"),
    ],
)
def test_the_digest_is_written_where_it_belongs(before: str, after: str) -> None:
    digest = "5" * 64
    head = HEAD if "sha256" in before else HEAD + f'sha256 = "{digest}"\n'
    assert with_digest(HEAD + before, digest) == head + after.format(digest)
    assert without_digest(with_digest(HEAD + before, digest)) == (
        HEAD + ("[rights]\n" if "sha256" in before else before)
    )


def test_the_example_of_the_documents_is_taken() -> None:
    page = ROOT / "docs" / "proxies.md"
    example, *_ = re.findall(
        r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    found = parse(example)
    assert {"clock", "read:**/AGENTS.md"} <= {*(found.rights or {})}


def test_the_drawn_manifests_are_those_of_the_bundled_components() -> None:
    """A start reads them in place of TOML."""
    written = tables.MANIFESTS.read_bytes()
    assert written == tables.manifests(), "write it: python -m tests.docs.tables"
    for name in catalog.bundled():
        path = Path(paths.components(), name, paths.MANIFEST)
        text = path.read_bytes()
        assert drawn.tables(name, text) == toml_files.loads(text.decode())
        assert catalog.bundled_manifest(name) == reading.parse(text)


def test_a_manifest_that_has_changed_is_read_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "components", lambda: str(tmp_path))
    assert drawn.tables("a", b"name = 'a'") is None, "there is no file"
    file = tmp_path / drawn.FILE
    file.write_bytes(drawn.encoded({"a": ("name = 'a'", {"name": "a"})}))
    assert drawn.tables("a", b"name = 'a'") == {"name": "a"}
    assert drawn.tables("a", b"name = 'b'") is None
    assert drawn.tables("b", b"name = 'a'") is None
    for broken in (b"", b"[]", b'{"a":{}}', b'{"a":1}', b"\xff"):
        file.write_bytes(broken)
        assert drawn.tables("a", b"name = 'a'") is None


def test_a_manifest_has_so_many_bytes() -> None:
    whole = HEAD + "#\n" * (64 * 1024)
    assert parse(whole[: 64 * 1024]).name
    with pytest.raises(UsageError, match="a manifest is at most"):
        parse(whole[: 64 * 1024 + 1])
