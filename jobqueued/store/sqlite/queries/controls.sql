-- name: read_controls
SELECT type, paused_at, paused_by, paused_note, breaker_since, breaker_probe_at, breaker_reason,
       spent_until
FROM controls

-- name: put_control
INSERT INTO controls (type, paused_at, paused_by, paused_note, breaker_since, breaker_probe_at,
                      breaker_reason, spent_until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (type) DO UPDATE SET
    paused_at = excluded.paused_at, paused_by = excluded.paused_by,
    paused_note = excluded.paused_note, breaker_since = excluded.breaker_since,
    breaker_probe_at = excluded.breaker_probe_at, breaker_reason = excluded.breaker_reason,
    spent_until = excluded.spent_until
