"""Drives a conductor with the official TypeScript SDK as the client (``ts/client.mjs``)."""

import json
import subprocess

from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.plan import Frame, Plan, Transcript, transcript_of
from tests.places import DEADLINE


def run_typescript_client(peers: NodePeers, plan: Plan) -> Transcript:
    """Do what ``plan`` says and return what was seen.

    Raises `subprocess.CalledProcessError` or `subprocess.TimeoutExpired` when the client
    itself fails; an error that answers a prompt is part of the transcript instead.
    """
    handed = {
        "command": plan.command,
        "prompts": plan.prompts,
        "cwd": str(plan.cwd),
        "permission": plan.permission,
        "cancel_on": plan.cancel_on,
        "files": dict(plan.files),
    }
    done = subprocess.run(
        [peers.node, str(peers.scripts / "client.mjs"), json.dumps(handed)],
        env=dict(plan.env),
        cwd=plan.cwd,
        stdout=subprocess.PIPE,
        timeout=DEADLINE,
        check=True,
    )
    seen = json.loads(done.stdout)
    frames = tuple(Frame(f["direction"], f["message"]) for f in seen["frames"])
    return transcript_of(seen["initialized"], seen["sessionId"], frames, seen["exitCode"])
