"""Somebody with `sqlite3` on the live file: `beside.py DATABASE SECONDS`.

Looks around, writes something that changes nothing, keeps the file locked for so long, checkpoints
and goes. Says `locked` when the daemon has to wait.
"""

from __future__ import annotations

import sqlite3
import sys
import time


def main(database: str, seconds: float) -> None:
    connection = sqlite3.connect(database, timeout=20, isolation_level=None)
    connection.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    print("locked", flush=True)
    connection.execute("UPDATE jobs SET correlation_id = correlation_id")
    time.sleep(seconds)
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


main(sys.argv[1], float(sys.argv[2]))
