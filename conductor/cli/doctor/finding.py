"""One finding of `conductor doctor`."""

from __future__ import annotations

import msgspec


class Check(msgspec.Struct, frozen=True):
    """One finding.

    `ok`: it is as it should be. `hint`: what to do if not. `needed`: without it conductor does not
    work, or not as promised, so that `conductor doctor` ends with exit code 1.
    """

    name: str
    ok: bool
    detail: str
    hint: str = ""
    needed: bool = True
