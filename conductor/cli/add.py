"""`conductor add SOURCE`: fetches a component, shows its card, and installs it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from conductor.cli import offer, report
from conductor.cli.list_ import Index, places
from conductor.cli.offer import Allowed, Decision
from conductor.cli.typer_options import argument, option, paragraphs, takes
from conductor.errors import UsageError
from conductor.packages import catalogue, install, sources, store
from conductor.packages.sources import Source
from conductor.spec import agents, catalog, syntax
from conductor.spec.digests import short

HELP: Final = paragraphs(
    "Install a component: fetch the component, show its card and ask. Nothing of the component "
    "runs meanwhile. Afterwards chains start the component by its name, also offline.",
    "A source is a file or folder (`./proxy.wasm`), `https://HOST/FILE#sha256=HEX`, "
    "`git+https://HOST/NAME.git@COMMIT`, `oci://HOST/NAME:TAG`, `pypi:NAME`, or a name that a "
    "catalogue offers.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor add ./proxy.wasm",
    "  conductor add weather --index ./catalogue",
    "  conductor add ./proxy.wasm,allow=filter+clock --yes",
)


@takes("add")
def add(
    source: Annotated[
        str,
        argument(
            "SOURCE",
            "A path, a URL, or a name of a catalogue. After a comma: rights that the component "
            "asks for.",
        ),
    ],
    name: Annotated[
        str,
        option("--name", "NAME", "The name of the component in chains."),
    ] = "",
    index: Index = None,
    **given: Any,
) -> int:
    """Installs a component."""
    wanted = offer.demand(given)
    source, options = syntax.split(source)
    allowed = Allowed.of("allow_all" in given, options)
    words = ["add", source, *(["--name", name] if name else [])]
    words += offer.signer_words(given)
    for each in index or ():
        words += ["--index", each]
    meant = _source(source, index)
    with store.incoming() as folder:
        made = install.candidate(meant, folder, name, wanted)
        again = offer.command(*words)
        if made.is_installed:
            install.commit(made)  # content that was lost or damaged is whole again
            report.say(f"installed already: {made.receipt.name}, {short(made.receipt.content)}")
            offer.agree(catalog.resolve(made.receipt.name), allowed, again)
            return 0
        offer.show(made)
        allowed.check(made.spec)
        decision = offer.decide(made, allowed, given, again=again)
        if decision is Decision.NO:
            report.say("nothing was installed")
            return offer.EXIT_DECLINED
        offer.put(made, decision, allowed, again)
    report.say(f"try it: {offer.command('exec', made.receipt.name, 'demo', '-p', 'hello')}")
    return 0


def _source(text: str, index: list[str] | None) -> Source:
    """The source that the user's text means. Raises `ConductorError`."""
    if catalogue.is_catalogue_name(text):
        if not index:
            _refuse_known(text)
        return catalogue.find(text, places(index))
    if index:
        raise UsageError(f"`--index` finds names, and `{text}` is none", "leave one of the two out")
    return sources.parse(text)


def _refuse_known(name: str) -> None:
    """Raises `UsageError` for a name that needs no `add`."""
    if catalog.bundled_manifest(name) is not None:
        raise UsageError(
            f"`{name}` comes with conductor: there is nothing to add",
            f"`conductor inspect {name}` shows the component and how to run it",
        )
    if agents.named(name) is not None:
        raise UsageError(
            f"`{name}` is an agent that conductor knows, and agents are not added",
            f"`conductor agents {name}` shows whether the agent is installed, and how to install "
            "it",
        )
