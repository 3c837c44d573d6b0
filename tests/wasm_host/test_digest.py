"""Digests are the same however they are computed."""

import hashlib
import subprocess
import sys

import pytest

from tests.places import ROOT
from wasm_host.cache import digest


@pytest.mark.parametrize("size", [0, 1, 1000, digest.LARGE - 1, digest.LARGE, 3 * digest.LARGE])
def test_small_and_large(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    assert digest.sha256(data) == hashlib.sha256(data).hexdigest()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="not every build has its own code")
def test_small_ones_need_no_openssl() -> None:
    code = (
        "import sys; from wasm_host.cache.digest import sha256; print(sha256(b''), '_hashlib' in "
        "sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.split() == [hashlib.sha256(b"").hexdigest().encode(), b"False"]
