"""Ctrl-C and SIGTERM while `conductor exec` runs."""

import signal

from tests.harness.process.command import Running


def test_the_first_interrupt_cancels_the_turn() -> None:
    with Running("exec", "py:tests.cli.agents:patient", "-p", "x") as running:
        running.wait_for(running.out, "working")
        running.interrupt()
        ran = running.end()
    assert (ran.code, ran.out) == (130, "working\n")
    assert "patient: cancelled" in ran.err
    assert "error" not in ran.err


def test_it_reaches_an_agent_behind_a_sandboxed_proxy() -> None:
    with Running("exec", "datetime", "py:tests.cli.agents:patient", "--json", "-p", "x") as running:
        running.wait_for(running.out, "working")
        running.interrupt()
        ran = running.end()
    assert ran.code == 130
    assert "patient: cancelled" in ran.err
    assert '{"stopReason":"cancelled"}' in ran.out.replace(" ", "")


def test_the_second_interrupt_ends_it() -> None:
    with Running(
        "exec", "passthrough", "py:tests.cli.agents:stubborn", "-p", "x", "-c", "grace=0.1"
    ) as running:
        running.wait_for(running.out, "working")
        running.interrupt()
        running.wait_for(running.err, "stubborn: no")
        running.interrupt()
        ran = running.end()
    assert ran.code == 130
    assert "cancelling the turn" in ran.err
    assert "Traceback" not in ran.err


def test_an_interrupt_before_the_turn_ends_it() -> None:
    with Running("exec", "py:tests.cli.agents:silent", "-p", "x", "-c", "grace=0.1") as running:
        running.wait_for(running.err, "silent: something came")
        running.interrupt()
        ran = running.end()
    assert (ran.code, ran.out) == (130, "")
    assert "error" not in ran.err


def test_termination_ends_it_at_once() -> None:
    with Running("exec", "py:tests.cli.agents:patient", "-p", "x", "-c", "grace=0.1") as running:
        running.wait_for(running.out, "working")
        running.interrupt(signal.SIGTERM)
        ran = running.end()
    assert ran.code == 128 + signal.SIGTERM
    assert "patient: cancelled" not in ran.err
    assert "Traceback" not in ran.err


def test_an_answer_nobody_reads_can_still_be_interrupted() -> None:
    with Running("exec", "demo", "-p", "/stream 200000 1000", "-c", "grace=0.1") as running:
        running.wait_for(running.out, "00000000")
        running.interrupt()
        running.wait_for(running.err, "cancelling the turn")  # while its output is full
        running.interrupt()
        ran = running.end()
    assert ran.code == 130
