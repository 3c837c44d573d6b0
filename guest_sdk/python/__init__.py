"""The Python SDK: a proxy in one file, run sandboxed, as a program, or inside a test, unchanged.

    from guest_sdk.python import Proxy

    proxy = Proxy("datetime", rights={"change:prompts": "to date", "clock": "to know it"})

    @proxy.request("session/prompt")
    async def prompt(request, next):
        now = await proxy.clock.now()
        request.preface(f"It is {now:%A %d %B %Y, %H:%M}.")
        return await next(request)

    if __name__ == "__main__":
        proxy.run()

`guest_sdk/python/README.md` is the guide. Imports the standard library only.
"""

from .calls import Call, Elicited, NotOffered
from .comments import Comment, CommentReply, Thread
from .content import Result, ToolError, audio, embedded, image, resource_link, unlinked
from .conversation import Conversation, Event
from .editor import Capabilities, Editor, NoOperation, Operation
from .errors import REFUSED, Answered, Cancelled, ProxyError, Refused
from .handling import Next
from .jsontext import read_json
from .messages import DROP, Drop, Message, Notification, Request, Update, text
from .nested import Nested
from .openings import Opening
from .panels import Panel
from .peers import Peer, PeerSession
from .playground import Playground, played
from .proxy import Proxy
from .recorder import Recorder
from .records import Record
from .resources import Contents, Resource
from .retelling import in_words
from .servers import Server
from .services import Response, RunningTimer
from .sessions import OwnTurn, Session, SubSession, Turn, UsedAgent
from .shown import EditorEvent
from .tasks import gather

__all__ = [
    "DROP",
    "REFUSED",
    "Answered",
    "Call",
    "Cancelled",
    "Capabilities",
    "Comment",
    "CommentReply",
    "Contents",
    "Conversation",
    "Drop",
    "Editor",
    "EditorEvent",
    "Elicited",
    "Event",
    "Message",
    "Nested",
    "Next",
    "NoOperation",
    "NotOffered",
    "Notification",
    "Opening",
    "Operation",
    "OwnTurn",
    "Panel",
    "Peer",
    "PeerSession",
    "Playground",
    "Proxy",
    "ProxyError",
    "Record",
    "Recorder",
    "Refused",
    "Request",
    "Resource",
    "Response",
    "Result",
    "RunningTimer",
    "Server",
    "Session",
    "SubSession",
    "Thread",
    "ToolError",
    "Turn",
    "Update",
    "UsedAgent",
    "audio",
    "embedded",
    "gather",
    "image",
    "in_words",
    "played",
    "read_json",
    "resource_link",
    "text",
    "unlinked",
]
