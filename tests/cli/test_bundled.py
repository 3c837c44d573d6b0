"""A bundle in place of a machine's configuration and policy: as a whole, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.cli import configured
from conductor.cli.bundled import Bundled
from conductor.errors import UsageError
from conductor.spec import guarded, managed
from conductor.spec.parsed import planned

POLICY = 'contact = "fleet@example.com"\n'
WORK = '[chains.work]\ncomponents = ["demo"]\n'


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    managed.bring(None)


def bundle(folder: Path, config: str, policy: str = "") -> Bundled:
    """The configuration of a bundle in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "conductor.toml").write_text(config)
    if policy:
        (folder / "policy.toml").write_text(policy)
    return Bundled.of(str(folder))


def test_what_is_taken_holds_for_the_process(tmp_path: Path) -> None:
    chains = bundle(tmp_path, WORK, POLICY).take()
    assert [*chains] == ["", "work"]
    now = managed.policy()
    assert now is not None
    assert now.file.contact == "fleet@example.com"
    only = chains["work"].only
    assert only is not None
    assert only.folder == str(tmp_path)
    again = configured.again(chains["work"], ["/what/was/before/conductor.toml"])
    assert again.config is not None
    assert again.config.files == [str(tmp_path / "conductor.toml")]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("", "has no chain"),
        ('[serve]\nchain = ["other"]\n' + WORK, "there is no chain `other`"),
        (WORK + "[chains.work.options]\nlock-file = 1\n", "`lock-file` cannot be"),
    ],
)
def test_what_cannot_be_taken_changes_nothing(tmp_path: Path, config: str, why: str) -> None:
    bundle(tmp_path / "before", WORK, POLICY).take()
    before = managed.brought()
    with pytest.raises(UsageError, match=why):
        bundle(tmp_path / "bad", config).take()
    assert managed.brought() is before


def test_the_chains_that_serve_names(tmp_path: Path) -> None:
    config = '[serve]\nchain = ["two", "one"]\n' + "".join(
        f'[chains.{name}]\ncomponents = ["demo"]\n' for name in ("one", "two", "three")
    )
    assert [*bundle(tmp_path, config).take()] == ["two", "one"]


def test_a_bundle_without_a_policy_takes_the_one_before_away(tmp_path: Path) -> None:
    bundle(tmp_path / "a", WORK, POLICY).take()
    bundle(tmp_path / "b", WORK).take()
    assert managed.policy() is None


def test_a_machine_has_one_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "policy.toml"
    place.write_text('contact = "machine@example.com"\n')
    monkeypatch.setattr(managed, "PLACE", str(place))
    monkeypatch.setattr(guarded, "real", lambda path, owners: path)
    other = bundle(tmp_path / "a", WORK, POLICY)
    with pytest.raises(UsageError, match="has a policy of its own"):
        managed.bring(other.policy)
    assert managed.brought() is None
    with pytest.raises(UsageError, match="has a policy of its own") as error:
        other.take()
    assert "machine@example.com" in error.value.hint
    assert managed.brought() is None
    bundle(tmp_path / "b", WORK, place.read_text()).take()
    bundle(tmp_path / "c", WORK).take()
    assert managed.policy() is not None


def test_a_locked_chain_without_a_file_is_held_to_that_of_the_bundle(tmp_path: Path) -> None:
    chains = bundle(tmp_path, "[options]\nlocked = true\n" + WORK).take()
    assert chains["work"].options.lock == str(tmp_path / "conductor.lock")


def test_a_chain_in_a_conductor_of_its_own_would_not_know_the_policy(tmp_path: Path) -> None:
    config = (
        '[chains.work]\ncomponents = ["router,allow=peer:x", "demo"]\noptions.branch.x = "redact"\n'
    )
    _, branch, _ = planned(bundle(tmp_path / "a", config).take()["work"]).components
    assert "--isolated" in (branch.command or [])  # it reads nothing that the bundle does not bring
    with pytest.raises(UsageError, match=r"`x` is a chain, .* policy of the bundle") as error:
        planned(bundle(tmp_path / "b", config, POLICY).take()["work"])
    assert "conductor.toml, line 3" in error.value.text
    planned(bundle(tmp_path / "c", config, POLICY + 'enforce = "watch"\n').take()["work"])


@pytest.mark.parametrize("rule", ["trace = false", 'content = "none"'])
def test_a_policy_against_records_refuses_a_journal(rule: str, tmp_path: Path) -> None:
    bundle(tmp_path / "a", WORK, POLICY).take()
    managed.refuse_journal()
    bundle(tmp_path / "b", WORK, f"{POLICY}{rule}\n").take()
    with pytest.raises(UsageError, match=f"`{rule.partition(' ')[0]}` of the managed policy"):
        managed.refuse_journal()
