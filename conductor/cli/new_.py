"""`conductor new`: the folder of a new component, from a template."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import guest_sdk
from conductor.cli import report
from conductor.errors import UsageError

TEMPLATES: Final = Path(__file__).parents[1] / "author" / "templates"
_ENDING: Final = ".tmpl"
_ALSO: Final = {"javascript": "js", "py": "python", "rs": "rust", "golang": "go"}
"""Other names of languages."""

HELP: Final = (
    "Make the folder of a new component: a manifest, a small proxy, a transcript that tests it, "
    "and what it takes to build it."
)
EPILOG: Final = "Examples:\n\n  conductor new my-proxy\n\n  conductor new my-proxy --lang c"


def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The component's name, and its folder's.", show_default=False
        ),
    ],
    lang: Annotated[
        str,
        typer.Option(
            "--lang",
            metavar="LANGUAGE",
            help="What it is written in: python, rust, js, zig, go, c or wat.",
        ),
    ] = "python",
) -> int:
    """Makes a project."""
    if not re.fullmatch(r"[A-Za-z][\w-]{0,63}", name, re.ASCII):
        raise UsageError(
            f"`{name}` cannot be a component's name",
            "a name is up to 64 letters, digits and any of `_-`, and begins with a letter",
        )
    known = languages()
    lang = _ALSO.get(lang, lang)
    if lang not in known:
        raise UsageError(f"no template for `{lang}`", f"languages are: {', '.join(known)}")
    folder = Path(name)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"`{name}` exists already", "take another name; nothing is overwritten")
    try:
        made = [_write(folder, path, text) for path, text in project(lang, name)]
    except OSError as error:
        raise UsageError(
            f"`{error.filename}` cannot be written: {error.strerror}", "check the folder"
        ) from None
    report.say(f"{name}: {template(lang)['title']}", *(f"  {path}" for path in sorted(made)))
    report.say("", "Next:", f"  cd {name}", *(f"  {step}" for step in template(lang)["next"]))
    return 0


def languages() -> list[str]:
    """The languages there are templates for."""
    return sorted(path.parent.name for path in TEMPLATES.glob("*/template.toml"))


def template(lang: str) -> dict[str, Any]:
    """What `template.toml` of a language says: `title`, `next`, and perhaps `copy`."""
    return tomllib.loads((TEMPLATES / lang / "template.toml").read_text(encoding="utf-8"))


def project(lang: str, name: str) -> Iterator[tuple[str, str]]:
    """The files of a new project, by path relative to its folder."""
    base = TEMPLATES / lang
    words = {"@NAME@": name, "@IDENT@": re.sub(r"\W", "_", name, flags=re.ASCII)}
    for path in sorted(base.rglob(f"*{_ENDING}")):
        where = str(path.relative_to(base)).removesuffix(_ENDING).replace(os.sep, "/")
        yield _filled(where, words), _filled(path.read_text(encoding="utf-8"), words)
    sdk = Path(guest_sdk.__file__).parent
    for target, source in template(lang).get("copy", {}).items():
        if (sdk / source).is_file():
            yield target, (sdk / source).read_text(encoding="utf-8")
            continue
        for path in sorted((sdk / source).iterdir()):
            if path.is_file() and path.suffix != ".md":
                yield f"{target}/{path.name}", path.read_text(encoding="utf-8")


def _filled(text: str, words: dict[str, str]) -> str:
    return re.sub(r"@[A-Z]+@", lambda found: words.get(found[0], found[0]), text)


def _write(folder: Path, path: str, text: str) -> str:
    whole = folder / path
    whole.parent.mkdir(parents=True, exist_ok=True)
    with whole.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return str(whole)
