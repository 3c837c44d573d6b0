"""Times as people write them, for reminders."""

import datetime
import re
from datetime import timedelta

LONGEST = timedelta(days=3660)
HOURS = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def due(at: str, minutes: float, now: datetime.datetime) -> datetime.datetime:
    """The time of a reminder: `at`, or so many minutes from now. Raises `ValueError`."""
    if bool(at) == bool(minutes):
        raise ValueError("say when: either `at`, or `minutes` from now")
    if not at:
        if not 0 < minutes <= LONGEST / timedelta(minutes=1):
            raise ValueError(f"`minutes` is more than 0, and {LONGEST.days} days at most")
        return now + timedelta(minutes=minutes)
    time = clock_time(at.strip(), now)
    if not now < time <= now + LONGEST:
        raise ValueError(
            f"it is {shown(now)} now: {shown(time)} is over, or more than {LONGEST.days} days away"
        )
    return time


def clock_time(at: str, now: datetime.datetime) -> datetime.datetime:
    """`18:00`, the next one, or `2025-10-08T18:00`; in the zone of `now` unless it has another."""
    if hours := HOURS.fullmatch(at):
        time = now.replace(hour=int(hours[1]), minute=int(hours[2]), second=0, microsecond=0)
        return time if time > now else time + timedelta(days=1)
    try:
        time = datetime.datetime.fromisoformat(at)
    except ValueError:
        raise ValueError(f"`{at[:40]}` is no time such as 18:00 or 2025-10-08T18:00") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=now.tzinfo)


def shown(time: datetime.datetime) -> str:
    """A time for people."""
    return f"{time:%Y-%m-%d %H:%M}"
