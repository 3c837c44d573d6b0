"""The datetime proxy, with K fixed, wherever a sandboxed proxy can run."""

from typing import Final

import pytest

from tests.harness.process.rig import PROXIES, Rig

K: Final = "2025-10-08T12:34:56+00:00"
DATE: Final = '<current-date date="2025-10-08" time="12:34:56"/>'
ISOLATIONS: Final = ("process", "inline", "separate")


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_every_prompt_begins_with_the_date(rig: Rig, isolation: str) -> None:
    options = ("-c", f"clock={K}", "-c", f"isolation={isolation}")
    chain = rig.agent("datetime", rig.demo(), options=options)
    session = chain.begin()
    for text in ("one", "two", "three"):
        assert chain.prompt(session, text) == f"{DATE}\n{text}"
    assert chain.prompt(chain.new_session(), "four") == f"{DATE}\nfour"
    prompts = [e.frame["params"]["prompt"] for e in rig.log("A", "in")
               if e.frame["method"] == "session/prompt"]  # fmt: skip
    assert [blocks[0] for blocks in prompts] == [{"type": "text", "text": DATE}] * 4
    assert chain.finish() == 0
    assert chain.stderr == ""
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize(("dialect", "isolation"), list(zip(PROXIES, ISOLATIONS * 2, strict=False)))
def test_among_other_proxies(rig: Rig, dialect: str, isolation: str) -> None:
    chain = rig.agent(
        "passthrough", rig.x("X", "--mark", "before", dialect=dialect), "datetime", "passthrough",
        rig.demo(), options=("-c", f"clock={K}", "-c", f"isolation={isolation}"),
    )  # fmt: skip
    session = chain.begin()
    assert chain.prompt(session, "one") == f"{DATE}\nbefore\none"
    assert chain.prompt(session, "/updates 3") == "update 0\nupdate 1\nupdate 2\n"
    assert chain.finish() == 0
    assert chain.stderr == ""


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_twice_in_one_chain(rig: Rig, isolation: str) -> None:
    options = ("-c", f"clock={K}", "-c", f"isolation={isolation}")
    chain = rig.agent("datetime", "datetime", rig.demo(), options=options)
    assert chain.prompt(chain.begin(), "one") == f"{DATE}\n{DATE}\none"


def test_in_a_conductor_within_a_conductor(rig: Rig) -> None:
    inner = rig.nested("datetime", options=("-c", f"clock={K}"))
    chain = rig.agent(inner, rig.demo())
    assert chain.prompt(chain.begin(), "one") == f"{DATE}\none"
