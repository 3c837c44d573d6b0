"""Adds to what the client says that it can, while the chain is initialized.

conductor exec ./inject.py,only=full demo -p "/context"
"""

from guest_sdk.python import Proxy

proxy = Proxy("inject")


@proxy.request("initialize")
async def initialize(request, next):
    name = "clientCapabilities" if request.params.get("protocolVersion") == 1 else "capabilities"
    request.params.setdefault(name, {}).setdefault("_meta", {})["example.com/my_feature"] = True
    return await next(request)


if __name__ == "__main__":
    proxy.run()
