"""The settings of `ide`."""

from dataclasses import dataclass


@dataclass
class Config:
    """The settings; README.md explains each."""

    primitives: bool = True
    rounds: int = 6
    seconds: float = 120
    longest: int = 50_000

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= 20 or self.longest < 100 or self.seconds <= 0:
            raise ValueError("`rounds` is 1 to 20, `longest` at least 100, `seconds` more than 0")
