"""Passes everything on: the work of a proxy without handlers.

conductor exec ./pass_through.py demo -p "hello"
"""

from guest_sdk.python import Proxy

proxy = Proxy(
    "pass-through",
    rights={"observer": "to see what passes"},
)

if __name__ == "__main__":
    proxy.run()
