"""The frame of a panel: HTML of a component, in a document that can reach nothing.

Three things keep it there, each enough by itself for its own part: the sandbox (no script, no form,
no window, no way to the page), the policy of the frame (nothing is loaded), and the policy of the
page (the frame goes nowhere else).
"""

from __future__ import annotations

import re
from typing import Final

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; "
    "font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_VOID: Final = re.compile(r"<(?=(?:link|meta|base|embed|set|animate)[\s/>])", re.IGNORECASE)
_NESTED: Final = re.compile(
    r"<(?=(?:i?frame|frameset|object|portal|fencedframe|applet)[\s/>])", re.IGNORECASE
)
_LINK: Final = re.compile(r"<(a|area)(?=[\s/>])", re.IGNORECASE)
_STYLE: Final = (
    "<!doctype html><style>:root{color-scheme:light dark;font:14px/1.5 system-ui,sans-serif}"
    "body{margin:12px 16px}</style>"
)
_NO_CALLS: Final = (
    "<script>for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'XSLTProcessor'])"
    " delete window[name]; {const page = parent, {port1, port2} = new MessageChannel();"
    " const tell = port1.postMessage.bind(port1); page.postMessage('', '*', [port2]);"
    " addEventListener('pointerdown', (event) => { if (event.isTrusted) tell(''); }, true);"
    " addEventListener('message', (event) => {"
    " if (event.source !== page && event.source !== window) event.stopImmediatePropagation();"
    " }, true);} document.currentScript.remove();</script>"
)
"""The page hears of each click by a port that no later script has: so it knows which frame put the
keyboard there. A frame finds the frames of other panels by `parent.frames`: their messages are not
heard.

No policy of a document covers calls from browser to browser. Nor is a document inside one (an
`iframe` with `srcdoc`) covered by what is deleted here: so no text becomes one, neither of the HTML
nor of a script's (`_NO_TEXTS`), nor of a style sheet's."""
_NO_TEXTS: Final = "; trusted-types 'none'; require-trusted-types-for 'script'"


def document(contents: str, *, scripts: bool) -> str:
    """The document of a frame.

    HTML without scripts loses each element that a browser acts on before any policy: a browser
    looks up the name of a frame's or a link's host. Each `<` before such a name counts, wherever it
    stands, so no way of reading HTML finds one more. A link opens a window, which the sandbox
    forbids: so a click does nothing.
    """
    alone = _NESTED.sub("<x-", contents)
    if scripts:
        return f"{_STYLE}{_NO_CALLS}{alone}"
    return _STYLE + _LINK.sub(r"<\1 target=_blank ", _VOID.sub("<wbr ", alone))


def headers(*, scripts: bool) -> dict[str, str]:
    """The headers of a frame."""
    sandbox = "sandbox allow-scripts" if scripts else "sandbox"
    policy = f"{sandbox}; {_POLICY}"
    if scripts:
        policy += f"; script-src 'unsafe-inline'{_NO_TEXTS}"
    return {"Content-Security-Policy": policy, "X-DNS-Prefetch-Control": "off"}
