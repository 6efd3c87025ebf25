"""Who goes first, and who may not hold up whom."""

from __future__ import annotations

from tests.acceptance.conftest import Serve
from tests.acceptance.support import GATE, GATED, Serving, is_refused_for_now
from tests.api.support import until

NOTING = """
[types.note]
command = ["sh", "-c", "echo $JOB_ID >> {place}/order"]
[types.other]
command = ["sh", "-c", "echo $JOB_ID >> {place}/order"]
"""
ONE_WORKER = "[pools.default]\nworkers = 1\n"
FIVE_WORKERS = "[pools.default]\nworkers = 5\n"


def order(serving: Serving, number: int) -> list[str]:
    """The ids of so many jobs in the order they ran."""
    place = serving.place / "order"
    until(lambda: place.exists() and len(place.read_text().split()) >= number)
    return place.read_text().split()


def submit(serving: Serving, kind: str, **fields: object) -> str:
    job_id: str = serving.submit(kind, **fields)["id"]
    return job_id


def test_the_highest_priority_goes_first_and_equals_in_order(serve: Serve) -> None:
    serving = serve(ONE_WORKER + GATED + NOTING)
    holder = serving.at_gate()
    submitted = [
        (priority, submit(serving, kind, priority=priority))
        for priority, kind in [(5, "note"), (1, "note"), (9, "other"), (5, "note"), (9, "other")]
    ]
    serving.let_through(holder)
    wanted = [job_id for _, job_id in sorted(submitted, key=lambda one: -one[0])]
    assert order(serving, 5) == wanted


def test_the_lowest_priority_does_not_starve(serve: Serve) -> None:
    serving = serve(ONE_WORKER + GATED + NOTING)
    holder = serving.at_gate()
    last = submit(serving, "note", priority=0)
    for _ in range(30):
        submit(serving, "note", priority=9)
    serving.let_through(holder)
    assert order(serving, 31).index(last) < 10


def test_a_type_takes_only_its_share_of_a_pool(serve: Serve) -> None:
    serving = serve(FIVE_WORKERS + GATED + NOTING)
    slow = [submit(serving, "gate", priority=9) for _ in range(10)]
    until(lambda: serving.type_counts("gate").get("processing") == 4)
    for _ in range(10):
        assert serving.finish("note", priority=0)["status"] == "completed"
    assert serving.type_counts("gate") == {"processing": 4, "pending": 6}
    serving.let_all_through(slow)


def test_a_type_alone_in_its_pool_takes_all_of_it(serve: Serve) -> None:
    serving = serve(FIVE_WORKERS + GATED)
    for _ in range(6):
        submit(serving, "gate")
    until(lambda: serving.type_counts("gate") == {"processing": 5, "pending": 1})


def test_no_more_of_a_type_run_than_it_allows(serve: Serve) -> None:
    limited = "[types.few]\nmax_running = 2" + GATE
    serving = serve(FIVE_WORKERS + NOTING + limited)
    first, second, third = (submit(serving, "few") for _ in range(3))
    serving.until_at_gate(first)
    serving.until_at_gate(second)
    assert serving.finish("note")["status"] == "completed"
    assert serving.type_counts("few") == {"processing": 2, "pending": 1}
    serving.let_through(first)
    serving.until_at_gate(third)
    assert serving.type_counts("few") == {"processing": 2, "completed": 1}


def test_pools_do_not_wait_for_each_other(serve: Serve) -> None:
    heavy = "[pools.heavy]\nworkers = 1\n[types.heavy]\npool = 'heavy'" + GATE
    serving = serve(ONE_WORKER + NOTING + heavy)
    serving.at_gate("heavy")
    waiting = submit(serving, "heavy", priority=9)
    assert serving.finish("note", priority=0)["status"] == "completed"
    assert serving.job(waiting)["status"] == "pending"
    pools = serving.get("/stats")["pools"]
    assert pools["heavy"] == {"workers": 1, "busy": 1}


def test_a_full_queue_refuses_and_accepts_again_when_it_has_drained(serve: Serve) -> None:
    serving = serve("[queue]\nmax_depth = 3\n" + ONE_WORKER + GATED)
    jobs = [serving.at_gate(), submit(serving, "gate"), submit(serving, "gate")]
    batch = {"jobs": [{"type": "gate"}, {"type": "gate"}]}
    assert is_refused_for_now(serving.post("/jobs/batch", batch), 429, "queue_full")
    jobs.append(submit(serving, "gate", delay_seconds=0.1))
    assert is_refused_for_now(serving.post("/jobs", {"type": "gate"}), 429, "queue_full")
    assert serving.stored() == 4
    serving.let_through(jobs[0])
    serving.until_at_gate(jobs[1])
    jobs.append(submit(serving, "gate"))
    serving.let_all_through(jobs[1:])
