"""Components that attack the editor's side: refused by name, and the conversation goes on."""

from __future__ import annotations

import pytest

from tests.e2e.test_editor import ask, degraded, run, shower
from tests.harness.process.rig import Rig


@pytest.mark.parametrize("form", ["sandboxed", "program"])
def test_what_cannot_be_read_still_becomes_text(rig: Rig, form: str) -> None:
    chain = run(rig, shower(form), rig.demo())
    session = chain.new_session()
    at = {"start": {"line": 1}, "text": "why"}
    odd = ("http://[", "file://[x", "file://h\u2100/", "file:///%00")
    for n, url in enumerate(odd):
        shown = ask(chain, session, "file_comment/show", id=f"{n}", url=url, **at)
        assert shown == {"result": {"shown": "text"}}
    for n, html in enumerate(("&#" + "9" * 5000, "<![<![", "<a " * 20_000, "<pre>" + " " * 60_000)):
        shown = ask(chain, session, "html_panel/show", id=f"{n}", label="l", contents=html)
        assert shown == {"result": {"shown": "text"}}
    assert len(degraded(chain)) == 8
    chain.prompt(session, "hi")
    assert chain.finish() == 0
