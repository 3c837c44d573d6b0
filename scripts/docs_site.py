"""MkDocs hook: every page of the repository is a page of the site, at the same path.

So a link in Markdown leads to the same place on the site, on a forge and in an editor, and the
README is the front page. MkDocs alone knows one folder of pages (`docs_dir`).
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_LIST = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
_FENCE = re.compile(r"^(```\w+) .*$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]\n]+)\]\((?!\w+:)([^)#\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Called with the theme's files and those below `docs_dir`: replaces the latter."""
    theme = [file for file in files if not file.src_uri.endswith(".md")]
    listed = subprocess.run(
        [*_LIST, "*.md", "docs/*.png", ":(exclude,glob)changelog.d/*.*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    # `--cached` still lists files that were deleted but not yet committed.
    pages = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return Files(
        [*theme, *(File.generated(config, name, abs_src_path=str(ROOT / name)) for name in pages)]
    )


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Called with a page's text: links to source files, which the site does not have, become text.

    A link to a file that does not exist stays, and fails the strict build. Of what stands behind
    three backquotes the language alone is left: Python-Markdown reads no further words there, which
    are for `tests/docs/walk.py`.
    """
    del config
    folder = os.path.dirname(page.file.src_uri)

    def shown(link: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(folder, link[2]))
        is_source = files.get_file_from_path(target) is None and (ROOT / target).exists()
        return link[1] if is_source else link[0]

    return _LINK.sub(shown, _FENCE.sub(r"\1", markdown))
