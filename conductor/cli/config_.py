"""`conductor config show`, `check` and `schema`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from conductor.cli.typer_options import Json, argument, paragraphs, switch, takes

HELP: Final = "Show and check the configuration: `conductor.toml` files and variables."

SHOW_HELP: Final = paragraphs(
    "Show the configuration of this folder: options, components, chains and choices, with the "
    "files that set them.",
    "The page shows the place of a secret, never the secret.",
)
SHOW_EPILOG: Final = "Example:\n\n  conductor config show --origin"
CHECK_HELP: Final = paragraphs(
    "Check every file of configuration, also untrusted files: reading a file runs nothing. The "
    "command makes the plan of each component and chain without starting them. It shows which name "
    "hides another, and which chains would not start here.",
    "Exit code 1 when a file has a mistake.",
)
CHECK_EPILOG: Final = (
    "Examples:\n\n  conductor config check\n\n  conductor config check ./conductor.toml"
)
SCHEMA_HELP: Final = (
    "Print the JSON Schema of `conductor.toml`, for editors that complete and check it."
)


@takes("config")
def show(
    origin: Annotated[bool, switch("--origin", "Show the file and line of each value.")] = False,
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
        argument(
            "FILE",
            "Check this file alone. Default: the files of the user and of the project.",
        ),
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
