"""`python -m tests.fuzz.guided --seconds 30`: the targets under a coverage-guided fuzzer.

That is atheris (the extra `fuzz`), which drives libFuzzer by what each input reaches of
`conductor` and `wasm_host`. It has wheels for some versions of Python on Linux only, so nothing
else needs it: where it is absent this says so and exits with 3.

Each target is a process of its own. What breaks one is left in the folder of `--keep`, and belongs
into `corpus/TARGET/` together with its repair.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ABSENT: Final = 3
"""Exit code where atheris is not installed."""

NAMES: Final = (
    "framing", "packets", "conversation", "policed", "lines", "headings", "guarded", "boundary",
    "module",
)  # fmt: skip
_INPUT_SECONDS: Final = 25
_INPUT_BYTES: Final = 4096


def main(arguments: list[str] | None = None) -> int:
    """0; 1 when an input broke something; 2 for a wrong command line; `ABSENT`."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="for all targets together")
    parser.add_argument("--target", choices=NAMES, action="append", help="only this; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of the fuzzer; 0: another each time")
    parser.add_argument("--keep", type=Path, help="folder for what breaks something and what "
                        "reaches further than the corpus; none unless given")  # fmt: skip
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed, so nothing was fuzzed by coverage\n\n"
              "hint: pip install -e '.[fuzz]' where it has a wheel; `pytest tests/fuzz` runs the "
              "same targets without it", file=sys.stderr)  # fmt: skip
        return ABSENT
    names = chosen.target or list(NAMES)
    if chosen.inside is not None:
        _fuzz(names[0], chosen.inside, chosen.seconds, chosen.seed)
    share = max(1, chosen.seconds // len(names))
    if chosen.keep is not None:
        return _all(names, chosen.keep, share, chosen.seed)
    with tempfile.TemporaryDirectory() as folder:
        return _all(names, Path(folder), share, chosen.seed, kept=False)


def _all(names: list[str], folder: Path, share: int, seed: int, *, kept: bool = True) -> int:
    """Each target for `share` seconds, in a process of its own."""
    broken = 0
    for name in names:
        inside = folder / name
        inside.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.fuzz.guided", "--target", name, "--seed", str(seed),
                   "--seconds", str(share), "--inside", str(inside)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"{name}: {_summary(done.stderr)}", flush=True)
        if done.returncode:
            broken += 1
            print(f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}", file=sys.stderr)
            for path in sorted(inside.glob("crash-*")) if not kept else ():
                print(f"{path.name}: {path.read_bytes()!r}", file=sys.stderr)
    return 1 if broken else 0


def _summary(said: str) -> str:
    """The last line in which libFuzzer counts: inputs tried, edges reached, inputs kept."""
    counts = [line for line in said.splitlines() if line.startswith("#") and "cov:" in line]
    return " ".join(counts[-1].split()) if counts else "said nothing"


def _fuzz(name: str, folder: Path, seconds: int, seed: int) -> None:
    """Fuzzes one target in this process, and ends it."""
    atheris = importlib.import_module("atheris")  # has no types, and is not everywhere
    with atheris.instrument_imports(include=["conductor", "wasm_host"]):
        from tests.fuzz.targets import TARGETS, starts

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for at, data in enumerate(starts(name)):
        (corpus / f"start-{at:03}").write_bytes(data)
    options = [f"-max_total_time={seconds}", f"-max_len={_INPUT_BYTES}", f"-seed={seed}",
               f"-timeout={_INPUT_SECONDS}", f"-artifact_prefix={folder}/", "-print_final_stats=1",
               "-rss_limit_mb=0"]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], TARGETS[name].run)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
