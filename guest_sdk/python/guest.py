"""The Python guest that all sandboxed `.py` proxies share: CPython, this package, and no power.

`build.py` builds the guest once and initialises it: the modules named here are imported before the
snapshot, since there are no files to import from afterwards. The first line to the guest
holds the author's source; every other line is for the engine.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from typing import Any, Final

from . import config, printing, sandbox
from .engine import Engine
from .failures import sentence, story
from .proxy import Proxy

PRELOADED: Final = """
_strptime abc argparse array ast base64 binascii bisect calendar cmath codecs collections
collections.abc colorsys configparser contextlib contextvars copy csv dataclasses datetime decimal
difflib enum errno fnmatch fractions functools gc getopt glob graphlib gzip hashlib heapq hmac html
html.entities html.parser http http.cookies importlib importlib.metadata importlib.resources
inspect io ipaddress itertools json json.decoder json.encoder keyword linecache locale logging math
mimetypes ntpath numbers operator os os.path pathlib pickle platform posixpath pprint queue random
re reprlib sched secrets shlex shutil stat statistics string stringprep struct sys tempfile
textwrap threading time token tokenize tomllib traceback types typing unicodedata urllib
urllib.error urllib.parse uuid warnings weakref xml xml.etree xml.etree.ElementTree zipfile zlib
zoneinfo encodings.ascii encodings.latin_1 encodings.utf_8 encodings.idna encodings.utf_16
encodings.cp1252 concurrent concurrent.futures concurrent.futures.thread __future__
""".split()  # noqa: SIM905 - a list one can read
"""Modules of the standard library that sandboxed proxies can import."""


def _preload() -> None:
    for name in PRELOADED:
        # A module that this build of Python leaves out is reported at its import.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


class Guest:
    """The proxy of one instance, once its source has come."""

    def __init__(self) -> None:
        self._engine: Engine | None = None

    def deliver(self, lines: str) -> str:
        """Takes lines and returns lines; to the line with the source, the mistake in the source."""
        if self._engine is None:
            return self._start(lines.partition("\n")[0])
        return self._engine.exchange(lines)

    def _start(self, line: str) -> str:
        """Loads the proxy; empty, or a sentence and a traceback.

        Settings that are wrong are found here: later a proxy that may answer nothing could tell
        nobody, and the conversation would go on without it.
        """
        params = json.loads(line)
        try:
            proxy = load(params["files"], params["main"])
            engine = Engine(proxy)
        except BaseException as error:  # whatever an author's code raises
            return f"could not be loaded: {sentence(error)}\n{story(error)}"
        try:
            config.read(proxy.config_type, (params.get("configure") or {}).get("config") or {})
        except ValueError as error:
            return f"cannot run with its settings: {error}"
        except BaseException as error:  # the author's code again
            return f"cannot run with its settings: {sentence(error)}\n{story(error)}"
        self._engine = engine
        return ""


def load(files: dict[str, str], main: str) -> Proxy[Any]:
    """Runs an author's files; the proxy they declare. Raises whatever they raise.

    `files`: sources by path, relative to the folder of the proxy. `main`: the one to run.
    """
    sandbox.serve(files)
    module = sandbox.run(main)
    found = getattr(module, "proxy", None)
    if isinstance(found, Proxy):
        return found
    proxies = [one for one in vars(module).values() if isinstance(one, Proxy)]
    if len(proxies) == 1:
        return proxies[0]
    what = "no proxy" if not proxies else f"{len(proxies)} proxies"
    raise ImportError(
        f"{main} declares {what}; it should say once `proxy = Proxy(…)`, after "
        "`from guest_sdk.python import Proxy`"
    )


class Channel:
    """The exported interface `channel` (wasm_host/channel.wit)."""

    def deliver(self, lines: str) -> str:
        """Lines in, lines out."""
        return _guest.deliver(lines)


_guest = Guest()

if sys.platform == "wasi":
    _preload()
    sandbox.close()
    printing.install()

__all__ = ["Channel", "Guest", "load"]
