"""A component that uses the editor by the SDK alone, as a prompt says, in any form.

It holds the prompt until the user has clicked in its panel, comments, and passes the prompt on with
what came of it.
"""

from __future__ import annotations

from guest_sdk.python import Call, EditorEvent, Next, NoOperation, Proxy, Request, Session

proxy = Proxy(
    "editing", rights={"context": "to take prompts as orders"}, description="Uses the editor."
)
clicks: list[object] = []


def ask(session: Session) -> None:
    """Declares who hears of clicks and replies."""
    panel, comment = session.editor.panel("plan"), session.editor.comment("why")

    @panel.on("click")
    def clicked(event: EditorEvent) -> object:
        clicks.append(event.data)
        session.editor.log("info", "clicked", event.data)
        return {"clicks": len(clicks)}

    @comment.on_reply
    async def replied(text: str) -> bool:
        if text == "pass it on":
            return False
        await comment.reply(f"You wrote: {text}")
        return True


@proxy.tool(when=lambda one: one is not None and one.editor.capabilities.operation)
async def selection(call: Call) -> object:
    """What the user has selected, and where it is used."""
    editor = call.session.editor
    found = await editor.operation("get-selection")
    return {"selection": found, "uses": await editor.operation("find-all-references", of=found)}


@proxy.request("session/prompt")
async def prompt(request: Request, following: Next) -> object:
    """Shows a panel and a comment, and tells the agent what came of it; a directive passes."""
    if request.is_command:
        return await following(request)
    session = request.session
    editor = session.editor
    ask(session)
    shown = await editor.panel("plan").show(label="Plan", contents="<b>one</b>")
    noted = await editor.comment("why").show(
        url="file:///p/a.py", start=(3, 2), end=5, text="Why?", can_reply=True
    )
    try:
        selection = await editor.operation("get-selection")
        names = [one.name for one in await editor.operations()]
    except NoOperation:
        selection, names = None, []
    thread = await editor.comment("why").get()
    replies = [] if thread is None else [(one.by, one.text) for one in thread.replies]
    request.append(f"{[editor.capabilities, shown, noted, selection, names, replies, clicks]}")
    return await following(request)


if __name__ == "__main__":
    proxy.run()
