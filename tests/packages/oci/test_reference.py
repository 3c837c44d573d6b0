"""How a component in a registry is written."""

import pytest

from conductor.errors import UsageError
from conductor.packages.oci import reference

HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "host", "name", "wanted"),
    [
        ("oci://ghcr.io/me/proxy:1.0", "ghcr.io", "me/proxy", "1.0"),
        ("oci://127.0.0.1:5000/p:latest", "127.0.0.1:5000", "p", "latest"),
        ("oci://[::1]:5000/p:v_1.2-x", "[::1]:5000", "p", "v_1.2-x"),
        (f"oci://r.example/a/b-c/d__e@sha256:{HEX}", "r.example", "a/b-c/d__e", f"sha256:{HEX}"),
        (f"oci://r.example/a:1@sha256:{HEX}", "r.example", "a", f"sha256:{HEX}"),
    ],
)
def test_is_read(text: str, host: str, name: str, wanted: str) -> None:
    read = reference.parse(text)
    assert (read.host, read.name, read.wanted, str(read)) == (host, name, wanted, text)


@pytest.mark.parametrize(
    "text",
    [
        "oci://",
        "oci:///p:1",
        "oci://r.example/p",
        "oci://r.example/p:",
        "oci://r.example/P:1",
        "oci://r.example/p:-1",
        "oci://r.example/p:1 2",
        "oci://r.example/../p:1",
        "oci://r.example/p/../q:1",
        "oci://r.example//p:1",
        "oci://me:secret@r.example/p:1",
        "oci://r.example/p@sha256:" + "A" * 64,
        "oci://r.example/p@sha512:" + "a" * 128,
        "oci://r.example/p@sha256:" + "a" * 63,
        "oci://r.example/p:1?x=y",
        "oci://r.example/p:1#x",
        "oci://r.example:port/p:1",
        "oci://-r.example/p:1",
        "oci://r.example/" + "a" * 256 + ":1",
        "oci://r.example/" + "a-" * 120 + ":1",
        "oci://r.example/p:1\n",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        reference.parse(text)
    assert refused.value.hint


def test_a_pinned_one_has_no_tag() -> None:
    pinned = reference.parse("oci://r.example/p:1").pinned(f"sha256:{HEX}")
    assert str(pinned) == f"oci://r.example/p@sha256:{HEX}"
