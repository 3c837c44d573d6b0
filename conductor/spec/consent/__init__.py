"""Consent: the user decides what a component gets beyond the default, once a version.

    wishes      the rights that a component asks for and does not have; agreements of the user
    question    a question and its options, in words of conductor's own; the meaning of an answer
    tools       a question about an MCP server whose tools have changed
    asking      which question is asked when: states and moves, without input and output

`conductor.run.consent` asks in an editor, `conductor.cli.consent` on a terminal.
"""

from __future__ import annotations

import enum


class Where(enum.Enum):
    """Where conductor asks the user."""

    TERMINAL = "terminal"
    """On the terminal, before anything runs."""
    EDITOR = "editor"
    """In the client, at the first prompt."""
    NOWHERE = "nowhere"
