"""A proxy of dialect `acp` that forwards everything, under ids of its own.

    forward.py [WORD [FILE]]

It ends with code 7 at a line that holds WORD: each time, or only while FILE is not there, which it
makes then.
"""

import json
import os
import sys

WORD, FILE = [*sys.argv[1:], "", ""][:2]

for line in sys.stdin:
    got = json.loads(line)
    if WORD and WORD in line and not (FILE and os.path.exists(FILE)):
        if FILE:
            open(FILE, "w").close()
        sys.exit(7)
    method, params = got.get("method"), got.get("params")
    sent: dict[str, object] = {"jsonrpc": "2.0"}
    if method == "proxy/successor":
        sent |= params
    elif method is not None:
        inner = "initialize" if method == "proxy/initialize" else method
        sent |= {"method": "proxy/successor", "params": {"method": inner, "params": params}}
    else:
        sent |= {k: v for k, v in got.items() if k in ("result", "error")}
        sent["id"] = json.loads(got["id"])
    if method is not None and "id" in got:
        sent["id"] = json.dumps(got["id"])
    print(json.dumps(sent), flush=True)
