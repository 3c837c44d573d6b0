"""Consent: what components ask for beyond the default is asked of the user, once a version.

    wishes      what a component asks for and does not have; what the user has agreed to already
    question    a question and its options, in words of conductor's own; what an answer means
    asking      which question is asked when: states and moves, without input and output

`conductor.run.consent` asks in an editor, `conductor.cli.consent` on a terminal.
"""
