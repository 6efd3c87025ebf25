"""Types that are held by limits of every kind, and what those limits are."""

from __future__ import annotations

CONFIG = """
[types.few]
command = ["{python}", "-S", "{root}/tests/fault/handlers/command.py", "{place}"]
env = { PYTHONPATH = "{root}" }
result = "stdout"
max_running = 2
[types.rated]
http = { url = "http://127.0.0.1:{port}/" }
rate = "2/s"
[types.keyed]
http = { url = "http://127.0.0.1:{port}/" }
max_running_per_key = 2
[types.breaking]
command = ["{python}", "-S", "{root}/tests/fault/handlers/command.py", "{place}"]
env = { PYTHONPATH = "{root}" }
result = "stdout"
breaker = { error_rate = 0.3, window = "10s", min_attempts = 4, probe_every = "300ms" }
[types.every]
python = "tests.fault.handlers.function:perform"
python_path = ["{root}"]
env = { FAULT_PLACE = "{place}" }
max_running = 2
max_running_per_key = 1
rate = "15/s"
breaker = { error_rate = 0.4, window = "10s", min_attempts = 4, probe_every = "300ms" }
[types.away]
remote = true
lease = "5s"
max_running = 3
max_running_per_key = 1
rate = "15/s"
"""
"""The last two are held by all that there is."""

TYPES = {"few": 1, "keyed": 2, "breaking": 1, "every": 1, "away": 2}
"""How often clients choose each; what is rated would pile up."""
CROWD = {"few": 8, "rated": 6, "keyed": 24, "breaking": 5, "every": 12, "away": 12}
"""So many that wait are more than may run."""
REMOTE = ("away",)
KEYS = ("north", "south", "east")

MOST = {"few": 2, "every": 2, "away": 3}
"""So many run at a time."""
MOST_OF_KEY = {"keyed": 2, "every": 1, "away": 1}
"""And so many of one key."""
RATES = {"rated": 2, "every": 15, "away": 15}
"""So many start in a second, and as many at once."""
PROBE_EVERY = {"breaking": 0.3, "every": 0.3}
"""Seconds between the jobs that an open breaker lets through."""
