"""Names that are made of commands."""

import pytest

from conductor.spec import programs


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["python", "-c", "token = 'secret'"], "python"),
        (["/usr/bin/python3", "-uc", "pass"], "python3"),
        (["node", "--eval", "secret()"], "node"),
        (["env", "A=1", "sh", "-ec", "exec x"], "env"),
        (["python", "-m", "agent_of_mine"], "agent_of_mine"),
        (["node", "dir/agent.js", "-c", "x"], "agent"),
        (["env", "TOKEN=secret", "agent"], "agent"),
        (["uvx", "tool"], "tool"),
    ],
)
def test_a_command_is_called_by_its_program_and_never_by_code(words: list[str], name: str) -> None:
    """Names stand in logs."""
    assert programs.name_of(words) == name
