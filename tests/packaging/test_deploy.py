"""The commands in deploy/ can be run: they are parsed, and their walls are there."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from conductor.cli import options
from tests.harness.process.rig import Rig
from tests.harness.process.serving import bearer, new_token, served
from tests.places import DEADLINE, ROOT

UNIT: Final = ROOT / "deploy" / "conductor-serve.service"
ONE_OF_SEVERAL: Final = ROOT / "deploy" / "conductor-serve@.service"
WORKER: Final = ROOT / "deploy" / "conductor-worker@.service"
PARTS: Final = (ROOT / "deploy" / "conductor-gateway.service", WORKER)
UNITS: Final = (UNIT, ONE_OF_SEVERAL, *PARTS)
CONTAINER: Final = ROOT / "deploy" / "Containerfile"


class _Unit(configparser.RawConfigParser):
    """A unit of systemd: names keep their case."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit(path: Path = UNIT) -> configparser.SectionProxy:
    """The section of the service."""
    parser = _Unit(interpolation=None)
    parser.read_string(path.read_text())
    return parser["Service"]


each_unit: Final = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile."""
    text = re.sub(r"\\\n", " ", CONTAINER.read_text())
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def flags(words: list[str]) -> set[str]:
    return {word for word in words if word.startswith("-")}


def known(command: str) -> set[str]:
    return {flag for row in options.of(command) for flag in row.flags.split()}


KNOWN: Final = known("serve")


@each_unit
def test_the_unit_starts_and_reloads_the_server(path: Path) -> None:
    service = unit(path)
    program, *rest = shlex.split(service["ExecStart"])
    name = re.split(r"[-@.]", path.name)[1]
    command = name if name == "serve" else f"fleet {name}"
    words, rest = rest[: len(command.split())], rest[len(command.split()) :]
    assert (program.rpartition("/")[2], " ".join(words)) == ("conductor", command)
    assert flags(rest) <= known(command)
    assert service["ExecReload"].endswith("-HUP $MAINPID")
    assert service["KillSignal"] == "SIGTERM"
    named = [word for word in rest if word.startswith("serve.wind-down=")]
    typed = named[0].partition("=")[2] if named else 30
    longest = float(typed) + 10.0  # … and the end of the chains
    assert float(service["TimeoutStopSec"]) > longest


@each_unit
def test_the_unit_locks_the_service_up(path: Path) -> None:
    service = unit(path)
    if path == WORKER:  # root, to start agents as somebody else, and nothing more
        command = shlex.split(service["ExecStart"])
        assert command[command.index("--run-as") + 1] == "conductor"
        assert service["CapabilityBoundingSet"] == "CAP_KILL CAP_SETGID CAP_SETUID"
        assert service["StateDirectoryMode"] == "0700"  # what root reads, no agent writes
        assert "/var/lib/conductor-worker" in service["Environment"]
    else:
        assert service["User"] not in ("", "root")
        assert service["CapabilityBoundingSet"] == ""
    for wall in (
        "NoNewPrivileges",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectHome",
        "LockPersonality",
    ):
        assert service[wall] == "yes", wall
    assert service["ProtectSystem"] == "strict"
    assert service["UMask"] == "0077"
    assert "MemoryDenyWriteExecute" not in service  # guests are compiled


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@each_unit
def test_systemd_takes_the_unit(tmp_path: Path, path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program is not None
    copy = tmp_path / path.name.replace("@", "@8791")
    copy.write_text(re.sub(r"/usr/local/bin/conductor", "/bin/true", path.read_text()))
    done = subprocess.run(
        [program, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert copy.name not in done.stderr, done.stderr


@pytest.mark.parametrize("path", PARTS, ids=lambda path: path.name)
def test_a_part_of_a_fleet_differs_in_its_command_and_its_credentials_alone(path: Path) -> None:
    part, alone = dict(unit(path)), dict(unit())
    folder = "/etc/conductor-worker" if path == WORKER else "/etc/conductor"
    assert part.pop("EnvironmentFile") == f"{folder}/nats.env"
    others = "User Group WorkingDirectory Environment StateDirectory ReadWritePaths "
    others = others + "CapabilityBoundingSet" if path == WORKER else ""
    for each in (part, alone):
        for name in ("ExecStart", "TimeoutStopSec", *others.split()):
            del each[name]
    assert part == alone


def test_one_of_several_servers_differs_in_its_address_and_its_owners_alone() -> None:
    one, alone = dict(unit(ONE_OF_SEVERAL)), dict(unit())
    words = shlex.split(one.pop("ExecStart"))
    rest = shlex.split(alone.pop("ExecStart"))
    assert one == alone
    assert [*rest, "-c", "serve.owners=/var/lib/conductor/owners-%i"] == [
        word for word in words if word not in ("--listen", "ws://127.0.0.1:%i")
    ]


def test_the_container_runs_the_server_as_nobody_special() -> None:
    found = dict(instructions())
    entry = json.loads(found["ENTRYPOINT"])
    assert entry[:2] == ["conductor", "serve"]
    assert flags(entry) <= KNOWN
    assert found["USER"] == "10001:10001"
    assert found["STOPSIGNAL"] == "SIGTERM"
    assert found["EXPOSE"] in entry[entry.index("--listen") + 1]
    assert not any(word == "ADD" for word, _ in instructions())


def test_what_the_container_writes_belongs_to_its_user() -> None:
    """A volume that is new takes its owner from the folder in the image. What the example mounts to
    be written, and the file of tokens, are in such folders; all else is read-only."""
    text = CONTAINER.read_text()
    example = text.partition("FROM")[0]
    made = re.search(r"install -d -o conductor -g conductor -m 0700 +(/[^\n]*)", instruction("RUN"))
    assert made is not None
    mounted = re.findall(r"-v \S+?:(/home/conductor/[\w./]+)", example)
    assert {*mounted} <= {*made[1].split()}
    assert len(mounted) == 3
    assert "--read-only" in example
    entry = json.loads(instruction("ENTRYPOINT"))
    tokens = entry[entry.index("--tokens") + 1]
    assert tokens.rpartition("/")[0] in mounted


def test_the_image_is_not_built_from_what_is_no_source() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    assert {".git", ".venv"} <= {*ignored}


def instruction(word: str) -> str:
    """The last instruction of a kind."""
    return dict(instructions())[word]


def test_what_the_container_runs_serves(rig: Rig) -> None:
    """The entry of the Containerfile on this machine, and its look at health."""
    found = dict(instructions())
    entry = [word.replace("8790", "0") for word in json.loads(found["ENTRYPOINT"])]
    token = new_token(rig, "alice")
    entry[entry.index("--tokens") + 1] = str(rig.folder / "tokens")
    arguments = [*entry[1:], rig.demo()]
    with served(rig, *arguments) as server:
        look = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
        code = look[2].replace("8790", str(server.port))
        subprocess.run([shutil.which("python3") or "", "-c", code], check=True, timeout=DEADLINE)
        client = server.socket(headers=bearer(token))
        assert client.prompt(client.begin(), "/echo hi") == "hi"
        server.end()
