"""`conductor config show`, `check` and `schema`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from conductor.cli.typer_options import Json, argument, paragraphs, switch, takes

HELP: Final = "Show and check what `conductor.toml` files and variables configure."

SHOW_HELP: Final = paragraphs(
    "Show what is configured here: options, components, chains and choices, and which files they "
    "come from.",
    "Secrets are never shown, only where they are.",
)
SHOW_EPILOG: Final = "Example:\n\n  conductor config show --origin"
CHECK_HELP: Final = paragraphs(
    "Check every file of configuration, also one that is not trusted: reading it runs nothing. "
    "Makes the plan of each component and chain without starting any, and shows what hides what, "
    "and which chains would not start here.",
    "Exit code 1 when there is a mistake.",
)
CHECK_EPILOG: Final = (
    "Examples:\n\n  conductor config check\n\n  conductor config check ./conductor.toml"
)
SCHEMA_HELP: Final = (
    "Print the JSON Schema of `conductor.toml`, for editors that complete and check it."
)


@takes("config")
def show(
    origin: Annotated[bool, switch("--origin", "Show where each value is written.")] = False,
    json_: Json = False,
    **values: Any,
) -> int:
    """Shows the effective configuration."""
    from conductor.cli import config_show

    return config_show.show(values, origins=origin, as_json=json_)


@takes("config")
def check(
    file: Annotated[
        str | None,
        argument("FILE", "Check this file alone. Default: those of the user and of the project."),
    ] = None,
    **values: Any,
) -> int:
    """Reports the mistakes in files of configuration."""
    from conductor.cli import config_check

    return config_check.check(file, values)


def schema() -> int:
    """Prints the JSON Schema of the file."""
    from conductor.cli import config_schema, report

    report.say_json(config_schema.schema())
    return 0
