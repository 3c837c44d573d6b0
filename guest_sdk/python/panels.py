"""Panels: HTML that an editor shows beside the conversation."""

from __future__ import annotations

from .shown import Shown


class Panel(Shown):
    """HTML beside the conversation (`session.editor.panel(id)`)."""

    family = "_scp/html_panel"

    async def show(
        self,
        *,
        label: str | None = None,
        contents: str | None = None,
        scripts: bool | None = None,
    ) -> bool:
        """Shows the panel, or changes the given parts, and brings it to the front. False: the
        editor shows no panels, so the user reads the contents as text in the conversation.

        A new panel needs `label` and `contents` (HTML). `scripts`: whether those in it run, which
        takes the right `web:panel`. Raises `Answered` where it is refused.
        """
        return await self._show(label=label, contents=contents, scripts=scripts)

    async def get(self) -> str | None:
        """Its contents; None: there is no such panel (any more)."""
        held = await self._ask("get")
        return held if isinstance(held, str) else None
