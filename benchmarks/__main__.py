"""``python -m benchmarks``: see README.md."""

import json
import sys

from benchmarks import report
from benchmarks.chains import Cast, Kind, bare, plan, reference_kinds
from benchmarks.measure import environment
from benchmarks.native import BuildError, Programs, build_c, build_sdk_proxy
from benchmarks.options import REFERENCE_NAME, Options, parse
from benchmarks.run import run


def main() -> int:
    """Runs what the command line asks for. 0; 1 when a chain failed; 2 when nothing can run."""
    options = parse()
    try:
        programs = _build(options)
    except BuildError as error:
        say(f"error: {error}\n\nhint: {error.hint}")
        return 2
    trace = options.cache / "trace.jsonl"
    cast = Cast(programs, options.conductor, options.reference, options.isolation, trace)
    chains = plan(cast, options.proxies, options.kinds, options.keeps)
    if not chains:
        say("error: no chain to measure\n\nhint: fewer conditions in --only and --proxies")
        return 2
    results = run(
        chains,
        cast,
        options.load,
        steps=options.steps,
        env=environment(options.cache),
        say=say,
    )
    trace.unlink(missing_ok=True)
    parts = [
        f"medians of {options.load.rounds} rounds; sandboxed = isolation {options.isolation}\n"
        + report.legend(options.steps),
        report.figures(results, chains, options.steps),
        report.ratios(results, chains, options.steps),
        report.ratios(results, chains, options.steps, bare),
        report.per_proxy(results, chains, options.steps),
        report.acceptance(results),
        report.troubles(results),
    ]
    print("\n\n".join(part for part in parts if part))
    if options.json is not None:
        data = report.as_json(results, chains, options.load, options.isolation)
        options.json.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    return 1 if results.failures else 0


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout holds the tables only."""
    print(text, file=sys.stderr, flush=True)


def _build(options: Options) -> Programs:
    programs = build_c(options.cache)
    if options.conductor is None:
        say("note: no conductor found beside this Python; its chains are left out")
    if options.reference is None:
        say(f"note: no {REFERENCE_NAME} in this run; there are no ratios, and no SDK proxies")
        return programs
    if Kind.SDK not in reference_kinds(options.kinds):
        return programs
    try:
        say("building the SDK proxy, where not cached (minutes, the first time)")
        sdk_proxy = build_sdk_proxy(options.cache)
    except BuildError as error:
        say(f"note: no SDK proxies in this run: {error}\nhint: {error.hint}")
        return programs
    return Programs(programs.agent, programs.proxy, programs.client, sdk_proxy)


if __name__ == "__main__":
    sys.exit(main())
