-- name: dead_of_type
SELECT id FROM jobs INDEXED BY jobs_unsuccessful_type
WHERE finished_at IS NOT NULL AND status <> 'completed'
  AND status = 'dead' AND type = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: dead_letter
SELECT seq, type, priority, status, idempotency_key, tenant, key FROM jobs WHERE seq = ? AND id = ?

-- name: newer_of_key
SELECT id, status FROM jobs WHERE idempotency_key = ? AND tenant IS ? AND seq > ?
ORDER BY seq DESC LIMIT 1

-- name: replay
UPDATE jobs SET status = ?, run_at = ?, failures = 0, losses = 0, finished_at = NULL,
       cancel_requested = 0, expires_at = iif(expires_at <= ?, NULL, expires_at)
WHERE seq = ? AND status = 'dead'

-- name: discard
UPDATE jobs SET status = 'discarded', finished_at = ? WHERE seq = ? AND status = 'dead'

-- name: delete_result
DELETE FROM results WHERE seq = ?

-- name: payload
SELECT payload, checksum FROM payloads WHERE seq = ?

-- name: replace_payload
INSERT INTO payloads (seq, payload, checksum) VALUES (?, ?, ?)
ON CONFLICT (seq) DO UPDATE SET payload = excluded.payload, checksum = excluded.checksum

-- name: add_change
INSERT INTO changes (seq, number, at, attempt, actor, action, note, payload)
SELECT seq, 1 + coalesce((SELECT max(number) FROM changes WHERE changes.seq = jobs.seq), 0),
       ?, attempt, ?, ?, ?, ?
FROM jobs WHERE seq = ?

-- name: delete_old_changes
DELETE FROM changes
WHERE seq = ? AND number <= (SELECT max(number) - ? FROM changes WHERE seq = ?)

-- name: changes
SELECT number, at, attempt, actor, action, note, payload FROM changes
WHERE seq = ? ORDER BY number DESC

-- name: payloads_before
SELECT payload FROM changes WHERE seq = ? AND payload IS NOT NULL
