"""Programs that play the roles of the rig's chains: `python -m tests.e2e.actors.NAME`."""
