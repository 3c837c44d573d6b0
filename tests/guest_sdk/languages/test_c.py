"""The C library's `datetime`, which is bundled, passes the transcripts of all languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import support

TRANSCRIPTS = [path for name, path in support.TRANSCRIPTS if name == "datetime"]


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=support.title)
def test_transcript(path: Path) -> None:
    module = support.load(support.ROOT / "components" / "datetime" / "datetime.wasm")
    support.play_guest(module, path)
