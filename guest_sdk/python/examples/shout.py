"""Makes the agent shout: what it says passes in capitals, what it thinks is not shown.

conductor exec ./shout.py,only=filter demo -p "hello"
"""

from guest_sdk.python import DROP, Proxy

proxy = Proxy(
    "shout",
    rights={"filter": "to change and hide what the agent says"},
)


@proxy.update("agent_message_chunk")
def shout(update):
    if not update.replayed and update.content.type == "text":
        update.text = update.text.upper()


@proxy.update("agent_thought_chunk")
def quiet(update):
    return DROP


if __name__ == "__main__":
    proxy.run()
