"""Wrong options of a fleet's commands are errors at once, without any NATS."""

from pathlib import Path

import pytest

from conductor.cli import fleet_place
from conductor.cli.worker_bundles import Bundles
from conductor.errors import UsageError
from tests.harness.process.command import Running, conductor


@pytest.mark.parametrize(
    "url",
    ["http://x:1", "nats://", "nats://:", "nats://h:99999999", "nats://h:x", "nats://h:0", "", ","],
)
def test_what_is_no_address_of_nats_is_refused_before_anybody_waits(url: str) -> None:
    with pytest.raises(UsageError, match="--nats"):
        fleet_place.place({"nats": [url]}, "gateway")


@pytest.mark.parametrize(
    "url", ["h", "h:4222", "nats://h", "tls://[::1]:4222", "wss://u:p@h:443/nats", "nats://a,b:1"]
)
def test_what_is_an_address_is_taken(url: str) -> None:
    assert fleet_place.place({"nats": [url]}, "gateway").nats == tuple(url.split(","))


def test_a_refused_address_keeps_its_password() -> None:
    with pytest.raises(UsageError) as caught:
        fleet_place.place({"nats": ["http://user:hunter2@h:1"]}, "gateway")
    assert "hunter2" not in caught.value.with_hint


def test_the_log_of_an_address_keeps_its_password(tmp_path: Path) -> None:
    url = "nats://user:hunter2@127.0.0.1:1"
    ran = conductor("fleet", "status", "--nats", url, "--nats-wait", "0", cwd=tmp_path)
    assert "NATS at nats://127.0.0.1:1" in ran.err
    assert "hunter2" not in ran.err


def test_credentials_that_cannot_be_used_are_refused_before_anybody_waits(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("root:x:0\n")
    with pytest.raises(UsageError, match="has no credentials of NATS"):
        fleet_place.place({"nats_creds": str(other)}, "gateway")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        fleet_place.place({"nats_creds": str(tmp_path / "none")}, "gateway")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        fleet_place.place({"nats_creds": str(tmp_path)}, "gateway")


def test_a_password_of_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fleet_place.PASSWORD, "hunter2")
    with pytest.raises(UsageError, match=f"{fleet_place.USER} is not"):
        fleet_place.place({}, "gateway")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("serve demo --tls-key x", "`--tls-key` means nothing without `--tls-cert`"),
        ("serve demo --tls-cert x", "`--tls-cert` means nothing at ws://127.0.0.1:8790/acp"),
        ("serve demo -c serve.oidc-audience=x", "means nothing without `serve.oidc-issuer`"),
        ("fleet gateway --tls-key x", "`--tls-key` means nothing without `--tls-cert`"),
        ("fleet status --nats-key x", "`--nats-key` means nothing without `--nats-cert`"),
        ("fleet worker --bundle x", "`--bundle` means nothing without `--bundle-key`"),
        ("fleet worker --journal-days 3", "`--journal-days` means nothing without `--journal`"),
        ("exec ws://127.0.0.1:1,ca=x -p hi", "has no TLS, so `ca` means nothing there"),
    ],
)
def test_an_option_that_means_nothing_alone_is_refused(words: str, text: str) -> None:
    conductor(*words.split()).assert_error(2, text, "hint: ")


def test_a_bundle_key_that_is_none_is_refused_before_anybody_waits(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("root:x:0\n")
    with pytest.raises(UsageError, match="other"):
        Bundles.of([], {"bundle_key": [str(other)]})


def test_the_word_agent_before_components_is_named(tmp_path: Path) -> None:
    ran = conductor(
        "fleet", "worker", "agent", "demo", "--nats", "nats://127.0.0.1:1", cwd=tmp_path
    )
    assert ran.code == 2
    assert "hint: components stand here without the word `agent`: leave it out" in ran.err


def test_why_nats_is_not_there_is_told_while_one_waits() -> None:
    with Running("fleet", "status", "--nats", "nats://127.0.0.1:9") as running:
        running.wait_for(running.err, "is not there yet ([Errno ")
