"""Durable submissions over 64 connections, against an aiohttp handler that stores nothing."""

from __future__ import annotations

from statistics import median

from benchmarks.bare import Bare, bare_server
from benchmarks.load import Measured, Plan, drive
from benchmarks.support import Daemon, Figure, Required, fresh_daemon, say

CONNECTIONS = 64
ROUNDS = 5
SECONDS = 3.0
BODY = '{"type":"hold","payload":{"name":"world","number":42}}'

Results = dict[str, list[Measured]]


def measure() -> list[Figure]:
    """Daemon and bare handlers in turn, every round."""
    results: Results = {}
    with (
        fresh_daemon() as daemon,
        bare_server("application") as application,
        bare_server("server") as server,
    ):
        servers: dict[str, Daemon | Bare] = {
            "bare": application,
            "daemon": daemon,
            "bare server": server,
        }
        for number in range(1, ROUNDS + 1):
            for name, one in servers.items():
                measured = drive(plan_for(one.port, one.pid, CONNECTIONS, SECONDS))
                results.setdefault(name, []).append(measured)
                _tell(number, name, measured)
    return _figures(results)


def plan_for(port: int, pid: int, connections: int, seconds: float) -> Plan:
    """One small job after the other."""
    return Plan(
        port=port, pid=pid, path="/jobs", body=BODY, connections=connections, seconds=seconds
    )


def _tell(number: int, name: str, measured: Measured) -> None:
    say(
        f"  round {number} of {ROUNDS}, {name}: {measured.rate:,.0f}/s, "
        f"server {measured.server_cpu:.0%} of a core, load {measured.load_cpu:.0%}"
    )


def _figures(results: Results) -> list[Figure]:
    def middle(name: str, field: str) -> float:
        return float(median(getattr(one, field) for one in results[name]))

    rate, bare = middle("daemon", "rate"), middle("bare", "rate")
    return [
        Figure(
            "submit, 64 connections", rate, "jobs/s", bare, "bare aiohttp application",
            Required("at least", 0.5, of_ratio=True),
        ),
        Figure(
            "submit, 64 connections", rate, "jobs/s", middle("bare server", "rate"),
            "bare aiohttp server",
        ),
        Figure("submit, 64 connections, p50", middle("daemon", "p50_ms"), "ms",
               middle("bare", "p50_ms"), "bare aiohttp application"),
        Figure("submit, 64 connections, p99", middle("daemon", "p99_ms"), "ms",
               middle("bare", "p99_ms"), "bare aiohttp application"),
        Figure("processor of the server", 100 * middle("daemon", "server_cpu"), "% of a core",
               100 * middle("bare", "server_cpu"), "bare aiohttp application"),
        Figure("processor of the load", 100 * middle("daemon", "load_cpu"), "% of a core",
               100 * middle("bare", "load_cpu"), "bare aiohttp application"),
    ]  # fmt: skip
