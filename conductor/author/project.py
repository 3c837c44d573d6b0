"""The folder of a new component, from a template of its language."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import guest_sdk
from conductor.errors import UsageError, did_you_mean

TEMPLATES: Final = Path(__file__).parent / "templates"
_ENDING: Final = ".tmpl"
_ALSO: Final = {"javascript": "js", "py": "python", "rs": "rust", "golang": "go"}
"""Other names of languages."""


def make(name: str, lang: str) -> tuple[dict[str, Any], list[str]]:
    """Writes a new project into the folder `name`; its template, and the paths of its files.

    Raises `UsageError`, also if the folder holds anything.
    """
    if not re.fullmatch(r"[A-Za-z][\w-]{0,63}", name, re.ASCII):
        raise UsageError(
            f"`{name}` cannot be a component's name",
            "a name is up to 64 letters, digits and any of `_-`, and begins with a letter",
        )
    known = languages()
    lang = _ALSO.get(lang, lang)
    if lang not in known:
        listed = f"languages are: {', '.join(known)}"
        raise UsageError(f"no template for `{lang}`", did_you_mean(lang, [*known, *_ALSO], listed))
    folder = Path(name)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"`{name}` exists already", "take another name; nothing is overwritten")
    written = list(files(lang, name))
    # Beside its place, so that a full disk leaves nothing.
    fresh = Path(f".{name}.{os.getpid()}.new")
    try:
        for path, text in written:
            _write(fresh / path, text)
        fresh.rename(folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UsageError(
            f"the folder `{name}` cannot be written: {error.strerror}", "check the disk and folder"
        ) from None
    return template(lang), [str(folder / path) for path, _ in written]


def languages() -> list[str]:
    """The languages there are templates for."""
    return sorted(path.parent.name for path in TEMPLATES.glob("*/template.toml"))


def template(lang: str) -> dict[str, Any]:
    """The `template.toml` of a language: `title`, `next`, and perhaps `copy`."""
    return tomllib.loads((TEMPLATES / lang / "template.toml").read_text(encoding="utf-8"))


def generated() -> frozenset[str]:
    """The descriptions and reasons that `conductor new` writes: they say nothing of a component."""
    found = set()
    for path in TEMPLATES.glob(f"*/component.toml{_ENDING}"):
        manifest = tomllib.loads(path.read_text(encoding="utf-8"))
        found |= {manifest["description"], *manifest["rights"].values()}
    return frozenset(found)


def files(lang: str, name: str) -> Iterator[tuple[str, str]]:
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
    return re.sub(r"@[A-Z]+@", lambda word: words.get(word[0], word[0]), text)


def _write(path: Path, text: str) -> None:
    """Writes a file that others than the user cannot write: such a file cannot be trusted."""
    for folder in reversed(path.parents):
        folder.mkdir(mode=0o755, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(fd, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
