"""The smallest agent: it says what it was prompted with.

conductor exec "python echo.py" -p "hello"
"""

from guest_sdk.python.agent import Agent

agent = Agent("echo", takes=["image", "audio", "embeddedContext"])


@agent.prompt
async def answer(turn):
    for block in turn.prompt:
        await turn.say(block)


if __name__ == "__main__":
    agent.run()
