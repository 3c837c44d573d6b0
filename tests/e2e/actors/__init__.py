"""Programs the rig plays its roles with; run as `python -m actors.NAME` from the folder above."""
