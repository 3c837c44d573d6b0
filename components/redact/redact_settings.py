"""The settings of `redact`, and the patterns that they come to."""

import re
from dataclasses import dataclass, field
from functools import cached_property

from shapes import SHAPES


@dataclass
class Config:
    """The settings; README.md explains each."""

    only: list[str] = field(default_factory=lambda: list(SHAPES))
    words: list[str] = field(default_factory=list)
    patterns: dict[str, str] = field(default_factory=dict)
    replacement: str = "[redacted: {name}]"
    prompts: bool = True
    updates: bool = True
    window: int = 0

    def __post_init__(self) -> None:
        for name in self.only:
            if name not in SHAPES:
                raise ValueError(f"`only`: no kind of secret `{name}`; it is {', '.join(SHAPES)}")
        if "" in self.words:
            raise ValueError("`words`: a secret cannot be empty")
        try:
            for name, pattern in self.patterns.items():  # noqa: B007 - named by the error
                re.compile(pattern)
        except re.error as error:
            raise ValueError(f"`patterns.{name}` is no regular expression: {error}") from None

    @cached_property
    def expressions(self) -> list[tuple[str, re.Pattern[str]]]:
        """All patterns, by name."""
        chosen = [(name, SHAPES[name]) for name in self.only]
        words = [("secret", re.escape(word)) for word in self.words]
        every = [*words, *self.patterns.items(), *chosen]
        return [(name, re.compile(pattern)) for name, pattern in every]
