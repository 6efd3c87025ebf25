"""A customer's flood waits behind itself: at most so many jobs of one key run, whatever happens."""

from __future__ import annotations

from collections import Counter

from tests.acceptance.conftest import Serve
from tests.acceptance.support import GATE, Serving
from tests.acceptance.test_reload import reload
from tests.api.support import until

KEYS = ("one", "two", "three")
EACH = 100
RECORDED = """
[pools.default]
workers = 9
[defaults]
kill_grace = "200ms"
[types.short]
backoff = { base = "100ms", jitter = "0s" }
cwd = "{place}"
command = ["sh", "-c", '''
echo start "${JOB_KEY-none}" >> record; sleep 0.01; echo end "${JOB_KEY-none}" >> record
''']
"""


def limited(most: int | None, config: str = RECORDED) -> str:
    return config if most is None else f"{config}\nmax_running_per_key = {most}\n"


def record(serving: Serving) -> list[tuple[str, str]]:
    """What the handlers wrote, in order: `start` or `end`, and the key."""
    path = serving.place / "record"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(word, key) for word, key in (line.split() for line in lines)]


def most_at_once(entries: list[tuple[str, str]]) -> dict[str, int]:
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for word, key in entries:
        running[key] += 1 if word == "start" else -1
        most[key] = max(most[key], running[key])
    return dict(most)


def flood(serving: Serving) -> None:
    """Floods of three keys, then some jobs of none."""
    for _ in range(EACH // 10):
        for key in KEYS:
            jobs = [{"type": "short", "key": key}] * 10
            assert serving.post("/jobs/batch", {"jobs": jobs}).status == 201
    jobs = [{"type": "short"}] * 30
    assert serving.post("/jobs/batch", {"jobs": jobs}).status == 201


def until_all_done(serving: Serving) -> None:
    total = len(KEYS) * EACH + 30
    until(lambda: serving.type_counts("short") == {"completed": total})


def test_floods_of_keys_wait_behind_themselves_alone(serve: Serve) -> None:
    serving = serve(limited(2))
    flood(serving)
    until_all_done(serving)
    entries = record(serving)
    most = most_at_once(entries)
    assert [most[key] for key in KEYS] == [2, 2, 2]
    last = max(place for place, entry in enumerate(entries) if entry == ("end", "none"))
    done = Counter(key for word, key in entries[:last] if word == "end")
    assert all(done[key] < EACH for key in KEYS)


def test_killed_in_the_middle_nothing_is_exceeded_or_left_short(serve: Serve) -> None:
    serving = serve(limited(2))
    flood(serving)
    for times in (1, 2, 3):
        until(lambda: len(record(serving)) > times * 100)  # noqa: B023
        serving.kill()
        until(lambda: not serving.processes())
        with (serving.place / "record").open("a") as file:
            file.write("killed all\n")
        serving.start()
    until_all_done(serving)
    for life in lives(record(serving)):
        most = most_at_once(life)
        assert max(most.get(key, 0) for key in KEYS) == 2
    assert not serving.get("/stats")["counts"]["pending"]


def lives(entries: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """The record of each daemon; what it was running when it was killed ended with it."""
    found: list[list[tuple[str, str]]] = [[]]
    for entry in entries:
        if entry[0] == "killed":
            found.append([])
        else:
            found[-1].append(entry)
    return found


GATES = "[types.gate]" + GATE


def counts(serving: Serving) -> tuple[int, int]:
    found = serving.type_counts("gate")
    return found.get("processing", 0), found.get("pending", 0)


def test_a_reload_raises_lowers_and_removes_the_limit(serve: Serve) -> None:
    serving = serve(limited(1, GATES))
    ids = [serving.submit("gate", key="one")["id"] for _ in range(8)]
    serving.until_at_gate(ids[0])
    assert counts(serving) == (1, 7)
    reload(serving, limited(3, GATES))
    until(lambda: counts(serving) == (3, 5))
    reload(serving, limited(1, GATES))
    for job_id in ids[:2]:
        serving.let_all_through([job_id])
        # Another key is served meanwhile, so whoever may start has started.
        serving.let_all_through([serving.at_gate(key=job_id)])
    assert counts(serving) == (1, 5)
    serving.let_all_through([ids[2]])
    serving.until_at_gate(ids[3])
    assert counts(serving) == (1, 4)
    reload(serving, limited(None, GATES))
    until(lambda: counts(serving) == (5, 0))
    serving.let_all_through(ids[3:])


def test_a_limit_changed_while_nobody_was_there_holds_from_the_start(serve: Serve) -> None:
    serving = serve(GATES)
    ids = [serving.submit("gate", key="one")["id"] for _ in range(4)]
    until(lambda: counts(serving) == (4, 0))
    serving.kill()
    until(lambda: not serving.processes())
    for job_id in ids:
        (serving.place / f"gate-{job_id}").unlink(missing_ok=True)
    serving.configure(limited(1, GATES))
    serving.start()
    until(lambda: counts(serving) == (1, 3))
    serving.let_all_through([serving.at_gate(key="two")])
    assert counts(serving) == (1, 3)
    for job_id in ids:
        assert counts(serving)[0] <= 1
        serving.let_all_through([job_id])
