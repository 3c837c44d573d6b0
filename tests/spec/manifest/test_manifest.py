"""`component.toml`: what is taken, what is refused and where, and what a manifest can grant."""

from __future__ import annotations

import hashlib
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conductor.author.build import with_digest, without_digest
from conductor.core.policy.rule_syntax import PolicyWords, parse_rule
from conductor.core.policy.rules import PROFILES, Grants, Policy, permits
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
[wants]
profile = "context"
reason = "to see prompts"
fails = "closed"
ids = "kept"
[wants.rights]
"down:session/prompt:answer" = "to refuse them"
[wants.grants]
"turns=within" = "to ask first"
"commands=review+plan" = "to list them"
texts = "to sign them"
[wants.services]
clock = "to tell the time"
"files:**/AGENTS.md" = "to show them"
"fetch:api.example.com" = "to ask"
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
    assert list(found.wants.services) == ["clock", "files:**/AGENTS.md", "fetch:api.example.com"]
    assert list(found.wants.rights) == ["down:session/prompt:answer"]
    assert found.wants.named == Grants(turns="within", commands=("review", "plan"), texts=True)
    assert (found.wants.fails, found.wants.ids) == ("closed", "kept")
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
        (HEAD + "[wants]\nprofil = 'x'", "line 4: [wants] has no key `profil`", "`profile`?"),
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
        (HEAD + "command = ['x']", "line 3: a manifest says exactly once what runs", "command"),
        ("name = 'x'", "line 1: a manifest says exactly once what runs", "file"),
        ("name = 'a b'\nfile = 'a.wasm'", "line 1: `name` is up to 64", ""),
        ("name = 'x'\nfile = '../a.wasm'", "line 2: `file` is a path within", ""),
        ("name = 'x'\nfile = '/a.wasm'", "line 2: `file` is a path within", ""),
        (HEAD + "kind = 'agent'", "line 3: an agent cannot be sandboxed", "command"),
        (HEAD + "sha256 = 'abc'", "line 3: `sha256` is 64", "conductor test --build"),
        (HEAD + "[wants]\nprofile = 'all'", "line 4: `profile` cannot be `all`", "observer"),
        (HEAD + "[wants.services]\nclok = 'x'", "line 4: no service `clok`", ""),
        (HEAD + "[wants.services]\nfetch = 'x'", "line 4: `fetch` is granted for something", ""),
        (HEAD + "[wants.services]\nclock = ' '", "line 4: `clock` is requested without", "users"),
        (
            HEAD + "[wants.services]\nclock = 1",
            "line 4: `wants.services.clock` should be a valid string",
            "",
        ),
        (HEAD + "[wants]\nfails = 'x'", "line 4: `wants.fails` should be 'open' or 'closed'", ""),
        (HEAD + "[wants]\nids = 'x'", "line 4: `wants.ids` should be '' or 'kept'", ""),
        (HEAD + "[wants.rights]\n'up:x' = 'y'", "line 4: `up:x`: write DIRECTION", ""),
        (
            HEAD + "[wants.rights]\n'up:session/update:modify' = 'y'",
            "line 4: `up:session/update:modify`: right `modify` must be copy, carry",
            "",
        ),
        (
            HEAD + "[wants.rights]\n'up:session/request_permission:carry' = 'y'",
            "no more than `copy` is to be had: with `permission=narrow`",
            "",
        ),
        (HEAD + "[wants.rights]\n'up:x:copy' = ''", "`up:x:copy`: not to be had", ""),
        (HEAD + "[wants.grants]\nfoo = 'y'", "line 4: `foo`: no grant `foo`; grants are", ""),
        (HEAD + "[wants.grants]\n'turns=ever' = 'y'", "`turns` is within or unprompted", ""),
        (HEAD + "[wants.grants]\ntexts = ' '", "line 4: `texts` is requested without", "users"),
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
    with pytest.raises(UsageError, match="utf-8"):
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
        + """[wants]
profile = "observer"
fails = "closed"
[wants.rights]
"down:session/prompt:carry" = "to add to them"
"up:session/update:carry" = "to sign them"
"up:session/update:copy" = "to read them"
[wants.grants]
texts = "to sign them too"
[wants.services]
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
    assert spec.policy.grants == Grants()
    assert spec.manifest_path == str(folder / "component.toml")


def test_it_narrows(folder: Path) -> None:
    spec = catalog.resolve(f"{folder}/component.toml")
    assert (spec.policy.profile, spec.policy.fails) == ("observer", "closed")
    assert spec.policy.allow == ("down:session/prompt:carry", "up:session/update:copy")
    assert spec.limits == {"memory_bytes": 1048576, "cpu_ms": 1000}


def test_what_the_user_says_counts(folder: Path) -> None:
    spec = catalog.resolve(f"{folder}/,profile=observer,grant=clock,memory=2MiB,name=y")
    assert (spec.name, spec.policy.profile, spec.policy.allow) == ("y", "observer", ())
    assert spec.grants == frozenset({"clock"})
    assert spec.limits["memory_bytes"] == 2 * 1024**2
    more = catalog.resolve(f"{folder}/,allow=up:session/update:drop,texts").policy
    assert more.allow == (
        "down:session/prompt:carry",
        "up:session/update:copy",
        "up:session/update:drop",
    )
    assert (more.profile, more.grants) == ("observer", Grants(texts=True))


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("none", "none"),
        ("observer", "observer"),
        ("context", "context"),
        ("tools", "tools"),
        ("filter", "context"),
        ("full", "context"),
        ("trusted", "context"),
    ],
)
def test_a_stranger_gets_the_profile_it_asks_for_up_to_context(
    folder: Path, asked: str, given: str
) -> None:
    (folder / "component.toml").write_text(HEAD + f"[wants]\nprofile = '{asked}'")
    assert catalog.resolve(f"{folder}/").policy == PolicyWords(given)
    assert catalog.resolve(f"{folder}/,profile=full").policy == PolicyWords("full")
    assert catalog.resolve(f"{folder}/datetime.wasm").policy == PolicyWords(given)
    shutil.copy(folder / "datetime.wasm", folder / "other.wasm")
    assert catalog.resolve(f"{folder}/other.wasm").policy == PolicyWords("context")


def test_the_manifest_beside_a_python_file_counts_before_its_source(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("proxy = Proxy('x', version='1')")
    (tmp_path / "component.toml").write_text("name = 'n'\nfile = 'x.py'\n[wants]\nprofile = 'none'")
    spec = catalog.resolve(str(tmp_path / "x.py"))
    assert (spec.name, spec.policy) == ("x", PolicyWords("none"))


# -- without a manifest of its own ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "given", "services"),
    [
        ("", PolicyWords(), None),
        ("proxy = Proxy('x')", PolicyWords(), None),
        ("proxy = Proxy('x', profile='observer')", PolicyWords("observer"), set()),
        ("proxy = Proxy('x', profile='tools', wants={'kv': 'y'})", PolicyWords("tools"), {"kv"}),
        ("proxy = Proxy('x', profile='full')", PolicyWords(), set()),
        (
            "proxy = Proxy('x', profile='none', version=3, wants={[]: 'x'})",
            PolicyWords("none"),
            set(),
        ),
        ("P = 'observer'\nproxy = Proxy('x', profile=P)", PolicyWords("observer"), set()),
        ("proxy = Proxy('x', profile=chosen('observer'))", PolicyWords(), None),
        ("proxy = Proxy('x', profile='observer'", PolicyWords(), None),
    ],
)
def test_what_a_source_declares_is_given_and_no_more(
    tmp_path: Path, source: str, given: PolicyWords, services: set[str] | None
) -> None:
    path = tmp_path / "x.py"
    path.write_text(source)
    spec = catalog.resolve(str(path))
    assert spec.policy == given
    assert (spec.manifest is None) == (services is None)
    assert spec.manifest is None or set(spec.manifest.wants.services) == services
    assert spec.grants == frozenset()
    assert catalog.resolve(f"{path},profile=full").policy == PolicyWords("full")


def test_a_module_describes_itself(tmp_path: Path) -> None:
    module = tmp_path / "m.wasm"
    shutil.copy(DATETIME, module)
    plain = module.read_bytes()
    assert section.find(str(module)) is None
    assert catalog.resolve(str(module)).policy == PolicyWords()
    text = HEAD + "[wants]\nprofile = 'observer'\n[config.a]\ntype = 'integer'\n[limits]\ncpu = 5\n"
    section.embed(str(module), b"other")
    section.embed(str(module), text.encode())
    assert module.read_bytes().startswith(plain)
    assert module.read_bytes().count(b"conductor.manifest") == 1
    for component in (str(module), f'{{"wasm": "{module}"}}'):
        spec = catalog.resolve(component)
        assert (spec.name, spec.policy.profile, spec.limits) == ("m", "observer", {"cpu_ms": 5})
        assert spec.schema.keys() == {"a"}
        assert spec.manifest_path == ""
    assert catalog.resolve(f"{module},profile=full").policy.profile == "full"
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
    section.embed(str(folder / "datetime.wasm"), (HEAD + "[wants]\nprofile = 'none'").encode())
    assert catalog.resolve(f"{folder}/").policy.profile == "observer"


def test_a_program_is_narrowed_too(tmp_path: Path) -> None:
    text = 'name = "p"\ncommand = ["{python}", "{dir}/p.py"]\ndialect = "acp"\n'
    (tmp_path / "component.toml").write_text(text)
    spec = catalog.resolve(f"{tmp_path}/")
    assert (spec.policy.profile, spec.dialect, spec.name) == ("trusted", "acp", "p")
    assert spec.command is not None
    assert spec.command[1] == str(tmp_path / "p.py")
    (tmp_path / "component.toml").write_text(text + "[wants]\nprofile = 'filter'")
    assert catalog.resolve(f"{tmp_path}/").policy.profile == "filter"
    turns = "[wants]\nprofile = 'context'\n{}[wants.grants]\n'turns=within' = 'to ask first'"
    (tmp_path / "component.toml").write_text(text + turns.format("ids = 'kept'\n"))
    assert catalog.resolve(f"{tmp_path}/").policy.grants == Grants(turns="within")
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
    assert spec.grants == frozenset({"clock", "log"})
    assert (spec.policy.profile, spec.manifest_path) == ("context", "")
    assert catalog.resolve("datetime,profile=observer").policy.profile == "observer"
    assert catalog.resolve("redact").policy == PolicyWords(
        "context",
        ("down:session/prompt:answer", "up:session/update:copy+carry+drop"),
        Grants(texts=True),
        fails="closed",
    )
    assert catalog.resolve("redact,profile=observer").policy == PolicyWords(
        "observer", fails="closed"
    )


@pytest.mark.parametrize("name", catalog.bundled())
def test_what_is_bundled_asks_for_nothing_that_its_profile_gives(name: str) -> None:
    spec = catalog.resolve(name)
    assert catalog.bundled_manifest(name) is not None
    if spec.policy.profile in PROFILES:
        profile = Policy(spec.policy.profile)
        for rule in spec.policy.allow:
            assert not permits(profile, parse_rule(rule)), rule


def test_gatekeepers_fail_closed() -> None:
    closed = {name for name in catalog.bundled() if catalog.resolve(name).policy.fails == "closed"}
    assert closed == {
        "redact", "rate-limit", "permission-guard", "hooks", "tool-filter", "budget",
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
        ("sha256 = ''  # of the module\n[wants]\n", 'sha256 = "{}"  # of the module\n[wants]\n'),
        ("\n# why\n[wants]\n", "\n# why\n[wants]\n"),
    ],
)
def test_the_digest_is_written_where_it_belongs(before: str, after: str) -> None:
    digest = "5" * 64
    head = HEAD if "sha256" in before else HEAD + f'sha256 = "{digest}"\n'
    assert with_digest(HEAD + before, digest) == head + after.format(digest)
    assert without_digest(with_digest(HEAD + before, digest)) == (
        HEAD + ("[wants]\n" if "sha256" in before else before)
    )


def test_the_example_of_the_documents_is_taken() -> None:
    page = ROOT / "docs" / "authoring.md"
    example, *_ = re.findall(
        r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    found = parse(example)
    assert found.wants.services.keys() == {"clock", "files:**/AGENTS.md"}


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
