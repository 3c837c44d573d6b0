"""`Proxy[Settings]`: the type of the settings, in a test, in the sandbox and as a program."""

import subprocess
import sys
from pathlib import Path
from typing import NotRequired, TypedDict

import pytest

from conductor.spec.catalog import resolve
from conductor.spec.python_guest import facts, scripts
from guest_sdk.python import Next, Playground, Proxy, Request, played
from tests.harness.process.command import conductor
from tests.places import checkout_environment


class Settings(TypedDict):
    """Settings of a proxy."""

    words: int
    mark: NotRequired[str]
    size: NotRequired[float]


SOURCE = """
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from guest_sdk.python import Next, Proxy, Request

class Settings(TypedDict{total}):
    words: int
    mark: NotRequired[str]

proxy = Proxy[Settings]("mine", rights={{"context": "to read prompts"}}, config=Settings)

@proxy.request("session/prompt")
async def prompt(request: Request, next: Next) -> object:
    request.preface(proxy.config.get("mark", "x") * proxy.config["words"])
    return await next(request)

{run}
"""
RUN = "if __name__ == '__main__':\n    proxy.run()"


def proxy() -> Proxy[Settings]:
    """A proxy that marks prompts."""
    made = Proxy[Settings]("mine", config=Settings)

    @made.request("session/prompt")
    async def prompt(request: Request, next: Next) -> object:  # noqa: A002 - as authors write
        request.preface(made.config.get("mark", "x") * made.config["words"])
        return await next(request)

    return made


@pytest.mark.parametrize(
    ("config", "said"), [({"words": 2}, "xx\nhi"), ({"words": 3, "mark": "o"}, "ooo\nhi")]
)
async def test_a_typed_dictionary_holds_the_settings(config: dict[str, object], said: str) -> None:
    async with Playground(proxy(), config=config) as p:
        assert (await p.prompt("hi")).text == said


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "`config` needs words"),
        ({"words": "two"}, "`words` must be a whole number"),
        ({"words": 2, "other": 1}, "`config` has no other"),
        ({"words": 2, "size": 10**400}, "`size` is too large for a number"),
    ],
)
def test_settings_that_do_not_fit(config: dict[str, object], why: str) -> None:
    @played
    async def play() -> None:
        async with Playground(proxy(), config=config) as p:
            await p.prompt("hi")

    with pytest.raises(Exception, match=why):
        play()


@pytest.mark.usefixtures("python_guest")
def test_the_source_says_which_settings_there_are(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE.format(total="", run=RUN))
    assert settings(path) == {"words": ("integer", True), "mark": ("string", False)}
    assert resolve(str(path)).policy.rights == ("context",)
    ran = conductor("exec", f"{path},config.words=2", "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "xx\nhi\n"), ran.err
    ran = conductor("exec", str(path), "demo", "-p", "hi")
    assert ran.code == 1
    assert "cannot run with its settings: `config` needs words" in ran.err
    path.write_text(SOURCE.format(total=", total=False", run=RUN))
    assert not any(required for _, required in settings(path).values())


def settings(path: Path) -> dict[str, tuple[str, bool]]:
    """Type of each setting in a source, and whether it is required."""
    found = facts.declared(scripts.read(str(path))).settings
    return {name: (one.type, one.required) for name, one in found.items()}


def test_a_program_that_forgets_to_run_it_is_reminded(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE.format(total="", run=""))
    done = subprocess.run(
        [sys.executable, str(path)],
        env=checkout_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "proxy `mine` was declared and never run" in done.stderr
