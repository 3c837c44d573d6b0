"""Puts a text in front of each prompt, for the agent alone.

conductor exec ./background.py demo -p "hello"
"""

from guest_sdk.python import Proxy

proxy = Proxy(
    "background",
    rights={"change:prompts": "to put a text in front of each prompt"},
)


@proxy.request("session/prompt")
def prompt(request):
    request.preface("The project is a conductor of proxies.")


if __name__ == "__main__":
    proxy.run()
