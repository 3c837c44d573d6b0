"""Passes everything on: what a proxy without handlers does.

conductor exec ./pass_through.py demo -p "hello"
"""

from guest_sdk.python import Proxy

proxy = Proxy("pass-through", profile="observer")

if __name__ == "__main__":
    proxy.run()
