"""Tables of names that the sandbox lacks, each with the service of the conductor to ask instead."""

from __future__ import annotations

from typing import Final

_NETWORK: Final = "there is no network; ask the conductor: `await proxy.fetch(url)`, allow=web:HOST"
TIME: Final = "there is no clock; ask the conductor: `await proxy.clock.now()`, allow=clock"
_SLEEP: Final = "nothing can wait; ask the conductor: `await proxy.timer.sleep(s)`, allow=timer"
FILES: Final = (
    "there are no files; ask the conductor: `await proxy.files.read(path)`, allow=read:GLOB"
)
STORE: Final = (
    "there are no files to write; ask the conductor: `await proxy.kv.set(key, value)`, "
    "allow=storage"
)
_RANDOM: Final = (
    "there is no randomness; ask the conductor: `await proxy.random.bytes(16)`, allow=random"
)
_THREADS: Final = (
    "there are no threads; run several things with `await gather(…)`, or later with `proxy.timer`"
)
_PROCESSES: Final = "there are no other programs"
_FOLDER: Final = "there is no folder to be in; a session's folder is `request.session.cwd`"
VARIABLES: Final = (
    "there is no environment; what the user is to set is a setting: `Proxy(config=…)`, "
    "`,config.KEY=VALUE`"
)
ZONES: Final = (
    "there is no database of time zones; `proxy.clock.now()` has the offset of the user's, "
    "others are `datetime.timezone(datetime.timedelta(hours=2))`"
)
INPUT: Final = "there is no input; settings come by `Proxy(config=…)`, messages to handlers"
_DATA: Final = "there are no files beside modules; put what is needed into a module"
_END: Final = "a proxy cannot end itself; raise an exception to answer with an error"
_COMPILED: Final = "there is no compiled code, which this package needs"
_LOOP: Final = (
    "there is no event loop: await what the SDK gives you, e.g. `gather`, `proxy.timer.sleep`"
)
_DEBUG: Final = (
    "there is no terminal; run the proxy as a program, from a terminal: "
    '`conductor exec "python proxy.py" demo -p hi`; or debug a test of it (`Playground`)'
)

MISSING: Final = {
    **dict.fromkeys(
        ("socket", "ssl", "select", "selectors", "socketserver", "ftplib", "smtplib", "imaplib",
         "poplib", "telnetlib", "xmlrpc", "http.client", "http.server", "http.cookiejar",
         "urllib.request", "requests", "httpx", "aiohttp", "urllib3", "websockets"),
        _NETWORK,
    ),
    **dict.fromkeys(("multiprocessing", "concurrent.futures.process"), _THREADS),
    **dict.fromkeys(("subprocess", "pty", "ctypes"), _PROCESSES),
    **dict.fromkeys(("asyncio", "trio", "anyio", "uvloop"), _LOOP),
    **dict.fromkeys(("sqlite3", "dbm", "shelve"), STORE),
    **dict.fromkeys(("mmap", "fileinput"), FILES),
    **dict.fromkeys(("pdb", "bdb"), _DEBUG),
    **dict.fromkeys(("getpass", "pwd", "grp"), VARIABLES),
    **dict.fromkeys(("signal", "resource", "fcntl", "termios"), _PROCESSES),
    **dict.fromkeys(("numpy", "pandas", "scipy", "PIL", "lxml", "cryptography", "orjson", "msgspec",
                     "pydantic", "pydantic_core", "torch", "tiktoken"), _COMPILED),
}  # fmt: skip
"""Modules that are not there, and the way around each."""

_CLOCKS: Final = (
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns",
    "localtime", "gmtime", "ctime", "process_time", "process_time_ns",
)  # fmt: skip
_READING: Final = ("read_text", "read_bytes", "open", "iterdir", "glob", "rglob", "exists",
                   "is_file", "is_dir", "stat")  # fmt: skip
_WRITING: Final = ("write_text", "write_bytes", "mkdir", "unlink", "touch", "rename", "rmdir")
_LISTING: Final = ("open", "listdir", "scandir", "stat", "walk")
_CHANGING: Final = ("mkdir", "makedirs", "remove", "unlink", "rename", "replace", "rmdir")
_LOOKING: Final = ("getsize", "getmtime")
_BESIDE: Final = ("files", "open_text", "open_binary", "read_text", "read_binary", "path")
_BLOCKING: Final = ("Thread.start", "Condition.wait")
"""Locks are there: many a library has one, and it is free whenever one thread asks for it."""
_STARTING: Final = ("system", "popen", "fork", "execv", "spawnv")

REFUSED: Final = {
    "builtins.breakpoint": _DEBUG,
    "builtins.input": "there is nobody to ask but the client: `await proxy.ask_client(…)`",
    "time.sleep": _SLEEP,
    "os.urandom": _RANDOM,
    "os.getrandom": _RANDOM,
    "random._urandom": _RANDOM,
    "os._exit": _END,
    "os.abort": _END,
    "os.getcwd": _FOLDER,
    "os.chdir": _FOLDER,
    "pathlib.Path.cwd": _FOLDER,
    "pathlib.Path.home": _FOLDER,
    **{f"uuid.uuid{one}": f"{_RANDOM} (`proxy.random.uuid()`)" for one in (1, 4, 6, 7)},
    **{f"time.{name}": TIME for name in _CLOCKS},
    **{f"pathlib.Path.{name}": FILES for name in _READING},
    **{f"pathlib.Path.{name}": STORE for name in _WRITING},
    **{f"os.{name}": FILES for name in _LISTING},
    **{f"os.{name}": STORE for name in _CHANGING},
    **{f"os.path.{name}": FILES for name in _LOOKING},
    **{f"os.{name}": _PROCESSES for name in _STARTING},
    **{f"threading.{name}": _THREADS for name in _BLOCKING},
    "_thread.start_new_thread": _THREADS,
    "tempfile._get_default_tempdir": STORE,
    **{f"glob.{name}": FILES for name in ("glob", "iglob")},
    **{f"importlib.resources.{name}": _DATA for name in _BESIDE},
}
"""Functions that are not there, and the way around each."""

SHOWN: Final = {
    "random._urandom": "os.urandom",
    "tempfile._get_default_tempdir": "tempfile.gettempdir",
}
"""The name by which an author knows a function, where it has another name."""
