"""Who has which session."""

from pathlib import Path

import pytest

from conductor.serve.access import tokens
from conductor.serve.owners import Owners


def test_the_only_principal_has_the_sessions_of_before() -> None:
    owners = Owners(sole="local")
    owners.add("anna", "hers")
    assert owners.has("local", "of before")
    assert not owners.has("local", "hers")
    assert not owners.has("anna", "of before")


def test_without_one_nobody_has_a_session_of_before() -> None:
    owners = Owners()
    owners.add("anna", "hers")
    assert owners.has("anna", "hers")
    assert not owners.has("anna", "of before")
    assert not owners.has("", "of before")
    owners.remove("anna", "hers")
    assert not owners.has("anna", "hers")


def test_a_session_has_one_owner_who_opened_it_last(tmp_path: Path) -> None:
    path = str(tmp_path / "owners")
    owners = Owners(path)
    owners.add("anna", "demo-1")
    owners.add("bert", "demo-1")
    owners.close()
    for each in (owners, Owners(path)):
        assert each.has("bert", "demo-1")
        assert not each.has("anna", "demo-1")


def test_a_line_that_broke_off_takes_no_other_with_it(tmp_path: Path) -> None:
    path = tmp_path / "owners"
    path.write_bytes(b'["+","anna","one"]\n["+","an')
    owners = Owners(str(path))
    owners.add("anna", "two")
    owners.close()
    again = Owners(str(path))
    assert again.has("anna", "one")
    assert again.has("anna", "two")
    again.close()


def test_the_folder_that_the_user_has_chosen_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    owners = Owners("owners")
    owners.add("anna", "hers")
    owners.close()
    tokens.add("tokens.toml", "anna", "secret", None)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    assert Owners("owners").has("anna", "hers")


@pytest.mark.proves("a trusted place can be")
@pytest.mark.parametrize("place", ["owners", "."])
def test_a_file_that_others_may_write_says_nothing(tmp_path: Path, place: str) -> None:
    """Others could give themselves the session of somebody else."""
    path = tmp_path / "owners"
    Owners(str(path)).close()
    (tmp_path / place).chmod(0o757)
    for _ in ("there", "new"):
        with pytest.raises(OSError, match="may be written by others"):
            Owners(str(path))
        if place == ".":
            path.unlink()
