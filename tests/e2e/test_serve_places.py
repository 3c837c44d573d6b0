"""An address at which something listens already: a named error, and what listens there goes on."""

import pytest

from tests.harness.process.rig import Rig
from tests.harness.process.serving import served


def test_a_second_server_at_the_same_path(rig: Rig) -> None:
    address = f"unix:{rig.folder / 'chain'}"
    with served(rig, "serve", rig.demo(), "--listen", address) as server:
        second = rig.run("serve", rig.demo(), "--listen", address)
        assert second.exit_code() == 2
        second.until_stderr(f"cannot listen at {address}: Address already in use")
        client = server.lines()
        assert client.prompt(client.begin(), "/echo on") == "on"


@pytest.mark.parametrize("kind", ["unix", "tcp", "ws"])
def test_the_same_address_twice(rig: Rig, kind: str) -> None:
    address = f"unix:{rig.folder / 'chain'}"
    if kind != "unix":
        with served(rig, "serve", rig.demo(), "--listen", f"{kind}://127.0.0.1:0") as server:
            address = server.address
            server.end()
    twice = rig.run("serve", rig.demo(), "--listen", address, "--listen", address)
    assert twice.exit_code() == 2
    twice.until_stderr(f"cannot listen at {address}: Address already in use")
    assert not (rig.folder / "chain").exists()
