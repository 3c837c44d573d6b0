"""`conductor serve [COMPONENT…]`, and `conductor agent --listen ADDRESS`: the chains and settings
that these ask for. `conductor.cli.serving` has the server."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from conductor import installation
from conductor.cli import configured, report
from conductor.cli.loop import run_loop
from conductor.cli.serving import Serving, Wanted
from conductor.cli.typer_options import argument, paragraphs, takes
from conductor.errors import UsageError
from conductor.spec import option_layers
from conductor.spec.option_table import SERVE
from conductor.spec.origins import blamed
from conductor.spec.parsed import Only, Parsed, assembled, read
from conductor.transports.remote import address as addresses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conductor.serve.settings import Settings

HELP: Final = paragraphs(
    "Serve chains to many clients at addresses: editors on other machines, other windows, pages.",
    "The chain of COMPONENT… is at /acp, as `conductor agent` would run it; each `--chain NAME` at "
    "/acp/NAME. Options of the chains stand in conductor.toml, those here and more in its "
    "`[serve]`, or in `-c KEY=VALUE`. "
    "SIGTERM lets running turns end; SIGHUP reads tokens, certificates and limits again.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor serve datetime claude\n"
    "  conductor serve token alice --tokens tokens.toml\n"
    "  conductor serve claude --listen wss://0.0.0.0:8790 --tokens tokens.toml \\\n"
    "      --tls-cert cert.pem --tls-key key.pem --host chains.example.org",
)

_TOKEN: Final = "token"  # noqa: S105 - a word of the command line
_DEFAULT_TOKENS: Final = "tokens.toml"

_Components = Annotated[
    list[str] | None,
    argument(
        "COMPONENT",
        "The proxies from the client's side on, then the agent; or `token NAME`, to make a token.",
    ),
]


@takes("serve")
def serve(context: typer.Context, components: _Components = None, **values: Any) -> int:
    """Serves chains at addresses."""
    typed = [*(components or [])]
    if typed[:1] == [_TOKEN]:
        return _token(typed[1:], values)
    if "days" in values:
        raise UsageError("`--days` is for `conductor serve token NAME`", "leave it out")
    _needs_extra("serve")
    from conductor.spec.config.model import Written  # the word behind `--`

    rest = [Written(context.obj)] if context.obj else []
    return run_loop(Serving("serve", lambda: wanted("serve", [*typed, *rest], values)).run)


def agent(parsed: Parsed, text: str) -> int:
    """Runs `agent --listen`: the chain of the command line for clients at one address. Raises
    `ConductorError`."""
    _needs_extra("agent --listen")
    from conductor.serve.settings import Settings

    address = addresses.parse(text)
    if not address.is_local:
        raise UsageError(
            f"`--listen` serves this machine alone, and {address} is beyond it",
            "`conductor serve` serves others too, with TLS and tokens",
        )
    settings = Settings(listen=(text,), owners="none")
    return run_loop(Serving("agent", lambda: Wanted(settings, {"": parsed})).run)


def _needs_extra(what: str) -> None:
    """Raises `UsageError` where a library of the extra `remote` is not installed."""
    try:
        import jwt  # noqa: F401
        import websockets  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`conductor {what}` needs the extra `remote`: there is no `{error.name}`",
            f"`{installation.with_extra('remote')}`",
        ) from None


def _token(typed: list[str], values: dict[str, Any]) -> int:
    """Makes a token, prints it, and puts its digest into the file."""
    from conductor.serve.access import tokens

    if len(typed) != 1:
        raise UsageError(
            "`conductor serve token` takes the name of a principal",
            "write one name, such as `conductor serve token alice --tokens tokens.toml`; by this "
            "name the server knows who shows the token",
        )
    path = values.get("tokens") or _DEFAULT_TOKENS
    until = None
    if days := values.get("days"):
        moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        until = moment.isoformat(timespec="seconds").replace("+00:00", "Z")
    token = tokens.new_token()
    tokens.add(path, typed[0], token, until)
    report.write(f"`{path}` has the digest; the token itself is shown this once")
    report.say(token)
    return 0


def in_file(command: str, values: Mapping[str, Any], only: Only | None) -> Settings:
    """The settings of a server: the command line over `[serve]` of the configuration, or over the
    one file that counts. Raises `ConductorError`."""
    from conductor.serve.settings import Settings

    config = configured.here(values, only)
    others = {row.key for row in SERVE if command not in row.commands}
    typed = {name: each for name, each in values.items() if name != "c"}
    read, set_by = dict[str, Any](), dict[str, str]()
    for key, written in (config.serve if config is not None else {}).items():
        if key not in others:
            name, read[name] = option_layers.of_server(key, written)
            if name not in typed:
                set_by[name] = written.origin
    option_layers.refuse_alone(SERVE, {**read, **typed}, set_by)
    return Settings(**{**read, **typed}, set_by=set_by)


def wanted(command: str, typed: Sequence[Any], values: Mapping[str, Any]) -> Wanted:
    """The command line with the configuration of this moment. Raises `ConductorError`."""
    settings = in_file(command, values, None)
    config = read(values)
    chains, said = {}, {"c": values["c"]} if "c" in values else {}
    if typed:
        chains[""] = assembled("agent", typed, said)
    for name in settings.chain:
        if config is None or name not in config.chains:
            error = UsageError(
                f"`--chain {name}`: there is no such chain in the configuration",
                "`conductor config show` lists the chains",
            )
            raise blamed(error, settings.set_by.get("chain"))
        chains[name] = assembled("agent", [name], said)
    if not chains:
        raise UsageError(
            f"`conductor {command}` needs a COMPONENT, or `--chain NAME`",
            f"for example `conductor {command} demo`",
        )
    applied = {name: configured.applied(one, served=True) for name, one in chains.items()}
    return Wanted(settings, applied)
