"""Frames become texts, however a message is cut."""

from websockets.frames import Frame, Opcode

from conductor.transports.remote.fragments import Fragments


def test_a_text_is_whole_with_its_last_frame() -> None:
    fragments = Fragments()
    cut = (
        Frame(Opcode.TEXT, b"be", fin=False),
        Frame(Opcode.PING, b"hi"),
        Frame(Opcode.CONT, b"", fin=False),
        Frame(Opcode.CONT, b"gun"),
        Frame(Opcode.TEXT, b"next"),
    )
    assert [fragments.text(each) for each in cut] == [None, None, None, b"begun", b"next"]
    assert fragments.size == 0


def test_a_binary_message_is_ignored_with_all_its_frames() -> None:
    fragments = Fragments()
    cut = (
        Frame(Opcode.BINARY, b"\0", fin=False),
        Frame(Opcode.CONT, b"\1"),
        Frame(Opcode.TEXT, b"next"),
    )
    assert [fragments.text(each) for each in cut] == [None, None, b"next"]


def test_what_has_come_can_be_forgotten() -> None:
    fragments = Fragments()
    fragments.text(Frame(Opcode.TEXT, b"half", fin=False))
    assert fragments.size == 4
    fragments.discard()
    assert fragments.size == 0
