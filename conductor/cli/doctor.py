"""`conductor doctor`: the parts that this machine and this installation have or lack.

Every check examines the real thing: it starts a throwaway process to try the cage, hashes the
modules, examines the cache folder. Nothing is repaired.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from conductor import installation
from conductor.cli import consent, doctor_editors, pages, report
from conductor.cli.typer_options import Json, paragraphs, takes
from conductor.errors import ConductorError, UsageError, counted, one_line
from conductor.spec import catalog, installed, lacking, managed, paths, plan, retention
from conductor.spec.layering import option
from conductor.spec.limits import size_in_words
from conductor.spec.python_guest import scripts
from wasm_host.cache import store
from wasm_host.harden import ESSENTIAL, Layer, probe

HELP: Final = paragraphs(
    "Check this machine and this installation: present parts, missing parts, and whether the "
    "system can lock up the process of sandboxed proxies.",
    "Exit code 1 when a part that conductor needs is missing.",
    "`--report` writes a text for a bug report: versions, these checks, the configuration, "
    "installed components, the last log files and the last ring. Conductor lists the contents and "
    "asks before it writes; it sends nothing. Conductor takes out secrets, your name, your home "
    "folder and the content of messages.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor doctor --report",
    "  conductor doctor --data",
    "  conductor doctor --clean logs --older 7d",
    "  conductor doctor --clean values --component history",
)

_INDENT: Final = " " * 11
OLDEST_PYTHON: Final = (3, 11)


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check."""

    name: str
    ok: bool
    detail: str
    hint: str = ""
    """How to mend a failed check."""
    needed: bool = True
    """Conductor does not work, or breaks a promise, without it: `conductor doctor` then fails."""


@takes("doctor")
def doctor(json_: Json = False, **values: Any) -> int:
    """Checks this machine, or shows, reports or deletes what is on it. Raises `ConductorError`."""
    clean = values.get("clean")
    _refuse_two(values)
    if "report" in values:
        if json_:
            raise UsageError("a report is a text: `--report` has no `--json`", "leave out `--json`")
        from conductor.cli import doctor_report

        return doctor_report.make(
            values.get("output"),
            show="show" in values,
            with_content="with_content" in values,
            yes="yes" in values,
        )
    if "data" not in values and clean is None:
        return show(option("cache", values), as_json=json_)
    from conductor.cli import doctor_data

    if clean is None:
        return doctor_data.show(as_json=json_)
    return doctor_data.clean(
        clean,
        component=values.get("component"),
        older=values.get("older"),
        damaged="damaged" in values,
        yes="yes" in values,
        as_json=json_,
    )


_QUESTIONS: Final = ("report", "data", "clean")


def _refuse_two(values: Mapping[str, Any]) -> None:
    """Raises `UsageError` for two questions at once."""
    asked = [f"`--{name}`" for name in _QUESTIONS if name in values]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} are several questions", "ask one of them")


def show(cache: str | None, *, as_json: bool) -> int:
    """Prints the results. Returns 1 if something needed is missing, else 0."""
    results = checks(cache)
    if as_json:
        report.say_json({"ok": not failed(results), "checks": results})
    else:
        report.say(*lines(results, pages.columns()))
    return 1 if failed(results) else 0


def checks(cache: str | None = None) -> list[CheckResult]:
    """The results of all checks, in the order that people see.

    Args:
        cache: The folder of compiled modules to examine; None: the user's.
    """
    return [
        _python(),
        _works("wasmtime", _wasmtime, f"install it: `{installation.again()}`"),
        _works("uvloop", _uvloop, _slow_loop(), needed=False),
        _cache(cache),
        log_files(),
        _guardian(),
        _policy(),
        _node(),
        _python_guest(cache),
        *_modules(),
        *_cage(probe()),
        *_installed(),
        *_editors(),
    ]


def _reinstall() -> str:
    return f"install conductor again: `{installation.again()}`"


def _slow_loop() -> str:
    return f"`{installation.with_package('uvloop')}`; until then conductor uses asyncio's own loop"


def failed(results: Sequence[CheckResult]) -> list[CheckResult]:
    """The failed checks of needed things."""
    return [check for check in results if check.needed and not check.ok]


def lines(results: Sequence[CheckResult], columns: int) -> list[str]:
    """The results for people, each hint below its check, on lines of so many columns."""
    width = max(len(check.name) for check in results)
    page = []
    for check in results:
        mark = "ok" if check.ok else "MISSING" if check.needed else "-"
        # Below the name: beside it there is no room for a path.
        text = f"{mark:<7}  {check.name:<{width}}  {check.detail}"
        page += pages.wrapped(text, columns, _INDENT).splitlines()
        if check.hint and not check.ok:
            page += pages.wrapped(f"{_INDENT}hint: {check.hint}", columns, _INDENT).splitlines()
    bad = failed(results)
    verdict = (
        f"{len(bad)} of {counted(len(results), 'check')} failed"
        if bad
        else "everything needed is there"
    )
    return [*page, "", verdict]


def _python() -> CheckResult:
    return CheckResult(
        "python",
        sys.version_info >= OLDEST_PYTHON,
        f"{platform.python_version()} ({platform.python_implementation()}, {platform.machine()})",
        f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or newer",
    )


def _works(name: str, examine: Callable[[], str], hint: str, *, needed: bool = True) -> CheckResult:
    """Checks a library that may fail to load. `examine`: returns the detail, or raises."""
    try:
        return CheckResult(name, True, examine(), hint, needed)
    except (ImportError, OSError, RuntimeError) as error:
        return CheckResult(name, False, f"does not work: {error}", hint, needed)


def _wasmtime() -> str:
    import wasmtime

    from wasm_host import capi
    from wasm_host.engine import wasmtime_version

    if lacks := capi.missing():
        raise ImportError(f"it lacks {', '.join(lacks)}")
    # Loads the native library and makes machine code: these are the steps that can fail.
    wasmtime.Module(wasmtime.Engine(), "(module)")
    return wasmtime_version()


def _uvloop() -> str:
    import uvloop  # noqa: F401 - its native library may not load

    return importlib.metadata.version("uvloop")


def _cache(folder: str | None) -> CheckResult:
    """Examines the folder of compiled modules, or the nearest folder above it that exists."""
    path = Path(folder or paths.compiled_modules())
    name = "compile cache"
    try:
        status = path.lstat()
    except FileNotFoundError:
        above = next(parent for parent in path.absolute().parents if parent.exists())
        writable = os.access(above, os.W_OK | os.X_OK)
        detail = f"{path}: made when first used" if writable else f"{path}: cannot be made"
        return CheckResult(
            name, writable, detail, f"make {above} writable, or choose another: `-c cache=FOLDER`"
        )
    except OSError as error:
        return CheckResult(
            name, False, f"{path}: {error.strerror}", "choose another folder: `-c cache=FOLDER`"
        )
    problem = _unfit(status)
    if problem:
        hint = f"chmod 700 {path}, or choose another folder: `-c cache=FOLDER`"
        return CheckResult(name, False, f"{path} {problem}", hint)
    sizes = [entry.size for entry in store.entries(path)]
    modules = counted(len(sizes), "module")
    return CheckResult(name, True, f"{path}: {modules}, {size_in_words(sum(sizes))}")


def _unfit(status: os.stat_result) -> str:
    """Why a folder may not hold compiled modules (docs/architecture.md, "wasm_host"), or ''."""
    if not stat.S_ISDIR(status.st_mode):
        return "is not a folder"
    # Another user could put machine code there, which conductor would run.
    if status.st_uid != os.getuid():
        return f"belongs to user {status.st_uid}"
    mode = stat.S_IMODE(status.st_mode)
    return "" if mode == 0o700 else f"has mode {mode:04o} instead of 0700"


def log_files() -> CheckResult:
    """The folder of the log files of chains, and the newest of these files."""
    name, folder = "log files", paths.logs()
    try:
        files = retention.files(folder, retention.LOGS.suffix)
    except FileNotFoundError:
        return CheckResult(name, True, f"{folder}: made when a chain is first run")
    except OSError as error:
        why = error.strerror or str(error)
        hint = f"chains write no log file: see to {folder}, or `-c log-file=FILE`"
        return CheckResult(name, False, f"{folder}: {why}", hint, needed=False)
    newest = f"; newest: {os.path.join(folder, files[0].name)}" if files else ""
    return CheckResult(name, True, f"{folder}: {len(files)} of the last runs{newest}")


def _guardian() -> CheckResult:
    shell = "/bin/sh"
    ok = os.access(shell, os.X_OK)
    return CheckResult(
        "guardian shell",
        ok,
        shell if ok else f"{shell} cannot be run",
        "without it, processes of a killed conductor may be left behind: install a POSIX shell",
    )


def _policy() -> CheckResult:
    """Whether this machine has a managed policy, and whether it can be used."""
    name = "managed policy"
    try:
        policy = managed.written()
    except UsageError as error:
        return CheckResult(name, False, error.text, error.hint)
    detail = f"none: there is no {managed.PLACE}"
    if policy is not None:
        only = "; it only watches" if policy.only_watches else ""
        detail = f"{policy.path}{only}; questions to {one_line(policy.file.contact)}"
    return CheckResult(name, True, detail)


def _node() -> CheckResult:
    path = shutil.which("node")
    hint = "install Node.js for agents that come from npm, e.g. claude-code-acp"
    return CheckResult("node", path is not None, path or "not on PATH", hint, needed=False)


def _python_guest(cache: str | None) -> CheckResult:
    """Whether the Python guest is there, whole and compiled, and whether it can be built."""
    name = "python guest"
    built = scripts.built_guest()
    toolchain = _toolchain()
    if built is None:
        if toolchain:
            return CheckResult(
                name, True, f"built when first used, by {toolchain}; takes some 10 s"
            )
        command = installation.with_package(scripts.TOOLCHAIN)
        hint = f"sandboxed `.py` proxies do not work: `{command}`, or install the wheel"
        return CheckResult(name, False, "not there, nor is componentize-py, which builds it", hint)
    path, digest = built
    actual, problem = _sha256(Path(path))
    if problem:
        return CheckResult(name, False, problem, "remove it; conductor builds it again")
    if actual != digest:
        hint = f"remove {path}; conductor builds it again" if toolchain else _reinstall()
        return CheckResult(name, False, f"{path}: sha256 {actual}, expected {digest}", hint)
    here = os.path.dirname(path) == paths.python_guests()
    parts = [
        f"built here: {path}" if here else f"installed: {os.path.basename(path)}",
        f"sha256 {digest[:16]}…",
        _compiled(cache, digest),
        f"can be rebuilt by {toolchain}" if toolchain else "cannot be rebuilt: no componentize-py",
    ]
    return CheckResult(name, True, ", ".join(parts))


def _toolchain() -> str:
    try:
        return f"componentize-py {importlib.metadata.version('componentize-py')}"
    except importlib.metadata.PackageNotFoundError:
        return ""


def _compiled(cache: str | None, digest: str) -> str:
    """Whether the guest is compiled, in words."""
    folder = Path(cache or paths.compiled_modules())
    absent = "compiled when first used, takes some seconds"
    if not folder.is_dir():
        return absent
    from wasm_host import Limits
    from wasm_host.cache.store import Cache
    from wasm_host.engine import engine_identity

    limits = Limits(**scripts.LIMITS)
    if Cache(folder, engine_identity(limits)).holds(digest):
        return "compiled"
    if Cache(folder, engine_identity(limits, baseline=True)).holds(digest):
        return "compiled in haste; faster code is made while a chain with it runs"
    return absent


def _sha256(path: Path) -> tuple[str, str]:
    """The digest of a file, or why it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest(), ""
    except OSError as error:
        return "", f"{error.strerror}: {path}"


def _modules() -> Iterator[CheckResult]:
    """Compares the bundled modules with the digests in their manifests."""
    hint = f"{_reinstall()}: this is not the module it was released with"
    for name in catalog.bundled():
        manifest = catalog.bundled_manifest(name)
        if manifest is None or manifest.file is None or not manifest.sha256:
            continue
        digest, problem = _sha256(paths.components_folder() / name / manifest.file)
        ok = digest == manifest.sha256
        detail = problem or (
            f"sha256 {digest[:16]}…" if ok else f"sha256 {digest}, expected {manifest.sha256}"
        )
        yield CheckResult(f"module {name}", ok, detail, hint)


_CURES: Final[dict[str, str]] = {
    "landlock-files": "use Linux 5.13 or newer with landlock in the boot parameter lsm=",
    "landlock-network": "use Linux 6.7 or newer; until then system-calls refuses the network",
    "landlock-scope": "use Linux 6.12 or newer; until then system-calls refuses such calls",
    "cgroup": "start the editor in a systemd session with memory and pids delegated; the other "
    "limits hold without it",
    "system-calls": "use Linux on x86_64 or aarch64 with seccomp filters",
}


def _cage(layers: Sequence[Layer]) -> Iterator[CheckResult]:
    """The layers of the cage of sandboxed proxies, as a throwaway process has tried them."""
    general = "guests run without this fence; `-c require-hardening=true` refuses to start"
    for layer in layers:
        # Elsewhere most layers do not exist, and nobody can install them.
        needed = layer.name in ESSENTIAL and sys.platform == "linux"
        hint = _CURES.get(layer.name, general)
        yield CheckResult(f"cage: {layer.name}", layer.in_force, layer.detail, hint, needed)


def _installed() -> Iterator[CheckResult]:
    """Whether each installed component gets the rights that it asks for."""
    for name in sorted(installed.names()):
        label = f"component {name}"
        try:
            (spec,) = consent.kept(plan.alone(name))[0].components
        except ConductorError as error:
            yield CheckResult(label, False, error.text, error.hint, needed=False)
            continue
        lacks = lacking.of(spec)
        text, _, hint = next(lacking.notes(spec), "").partition("\nhint: ")
        detail = text if lacks else "it gets all that it asks for"
        yield CheckResult(label, not lacks, detail, hint, needed=False)


def _editors() -> Iterator[CheckResult]:
    """The editors of this user, and whether our entries in them still start something."""
    for editor, ok, detail, hint in doctor_editors.findings():
        yield CheckResult(f"editor {editor}", ok, detail, hint, needed=False)
