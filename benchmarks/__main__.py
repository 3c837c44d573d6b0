"""``python -m benchmarks``: see README.md."""

import dataclasses
import json
import sys

from benchmarks import history, picture, report, revision
from benchmarks.chains import Cast, Kind
from benchmarks.measure import environment
from benchmarks.native import BuildError, Programs, build_c, build_changing, build_sdk_proxy
from benchmarks.options import REFERENCE_NAME, Options, parse
from benchmarks.plan import Plan, beside_before, for_goals, for_sizes, wanted
from benchmarks.run import run


def main() -> int:
    """Performs the command line. Returns 0; 1 when a chain failed; 2 when nothing can run."""
    options = parse()
    if options.picture is not None:
        return _draw(options)
    try:
        cast = _cast(options)
    except BuildError as error:
        say(f"error: {error}\n\nhint: {error.hint}")
        return 2
    plan = _plan(options, cast)
    if not plan:
        say("error: no chain to measure\n\nhint: fewer conditions in --only and --proxies")
        return 2
    about = history.machine()
    results = run(plan, cast, options.load, env=environment(options.cache), say=say)
    cast.trace.unlink(missing_ok=True)
    parts = [
        f"medians of {options.load.rounds} rounds; load average at the start {about['load']}\n"
        + report.legend(plan),
        report.figures(results, plan),
        *([report.ratios(results, plan), report.per_proxy(results, plan)] * bool(options.proxies)),
        report.changes(results, plan, options.against or ""),
        report.goals(results, wanted(cast, options.kinds, options.steps)),
        report.troubles(results),
    ]
    print("\n\n".join(part for part in parts if part))
    entry = history.entry(results, options.load, about)
    if options.json is not None:
        data = report.as_json(results, plan, options.load, entry)
        options.json.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if options.history is not None:
        history.append(options.history, entry)
    return 1 if results.failures else 0


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout holds the tables only."""
    print(text, file=sys.stderr, flush=True)


def _draw(options: Options) -> int:
    assert options.picture is not None
    try:
        drawn = picture.draw(history.last(options.source))
    except history.HistoryError as error:
        say(f"error: {error}\n\nhint: `python -m benchmarks --record` writes a run")
        return 2
    options.picture.write_text(drawn, "utf-8")
    return 0


def _plan(options: Options, cast: Cast) -> Plan:
    if options.proxies:
        plan = for_sizes(cast, options.kinds, options.steps, options.proxies)
    else:
        plan = for_goals(cast, options.kinds, options.steps)
    return plan if cast.before is None else beside_before(plan)


def _cast(options: Options) -> Cast:
    """Builds the programs that take part. Raises BuildError where a needed one cannot be built."""
    before = None
    if options.against is not None:
        say(f"building {options.against}, where not cached")
        before = (str(revision.build(options.against, options.cache)),)
    programs = build_c(options.cache)
    if options.conductor is None:
        say("note: no conductor found beside this Python; its chains are left out")
    elif Kind.CHANGING in options.kinds:
        programs = _with_changing(programs, options)
    if options.reference is not None:
        programs = _with_sdk(programs, options)
    else:
        say(f"note: no {REFERENCE_NAME} in this run; there are no ratios to it")
    trace = options.cache / "trace.jsonl"
    return Cast(programs, options.conductor, options.reference, before, trace)


def _with_changing(programs: Programs, options: Options) -> Programs:
    try:
        return dataclasses.replace(programs, changing=build_changing(options.cache))
    except BuildError as error:
        say(f"note: no chains that change prompts: {error}\nhint: {error.hint}")
        return programs


def _with_sdk(programs: Programs, options: Options) -> Programs:
    try:
        say("building the SDK proxy, where not cached (minutes, the first time)")
        return dataclasses.replace(programs, sdk_proxy=build_sdk_proxy(options.cache))
    except BuildError as error:
        say(f"note: no SDK proxies in this run: {error}\nhint: {error.hint}")
        return programs


if __name__ == "__main__":
    sys.exit(main())
