-- name: lane_heads
SELECT seq, run_at, expires_at FROM jobs
WHERE status = 'pending' AND held_back = 0 AND type = ? AND priority = ?
ORDER BY run_at, seq LIMIT ?

-- name: claim
WITH chosen (seq, at, worker, holder, secret, until) AS (VALUES (?, ?, ?, ?, ?, ?))
UPDATE jobs SET status = 'processing', attempt = attempt + 1, started_at = chosen.at,
       worker = chosen.worker, held_by = chosen.holder,
       lease_token = id || '.' || (attempt + 1) || '.' || chosen.secret,
       lease_expires_at = chosen.until, progress_percent = NULL, progress_message = NULL
FROM chosen WHERE jobs.seq = chosen.seq AND status = 'pending'
RETURNING seq, id, attempt, lease_token, max_retries, failures, losses, created_at,
          correlation_id, key, tenant

-- name: payloads
SELECT seq, payload, checksum FROM payloads WHERE seq IN (VALUES (?))

-- name: expire
UPDATE jobs SET status = 'expired', finished_at = ? WHERE seq = ?

-- name: settle
WITH ended (seq, token, at, status, runs_again, run_at, failures, losses, failure) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?))
UPDATE jobs SET
       status = iif(cancel_requested AND ended.runs_again, 'cancelled', ended.status),
       finished_at = iif(cancel_requested OR NOT ended.runs_again, ended.at, NULL),
       cancel_requested = cancel_requested OR ended.status = 'cancelled',
       run_at = coalesce(ended.run_at, jobs.run_at), failures = ended.failures,
       losses = ended.losses, last_error = coalesce(ended.failure, last_error),
       held_by = NULL, lease_token = NULL, lease_expires_at = NULL
FROM ended
WHERE jobs.seq = ended.seq AND jobs.status = 'processing' AND lease_token = ended.token
RETURNING seq, attempt, status, type, priority, tenant, key, worker, started_at

-- name: insert_attempt
INSERT INTO attempts (seq, number, worker, started_at, finished_at, outcome, error, exit_code,
                      http_status, max_rss_bytes, cpu_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_log
INSERT INTO logs (seq, attempt, output) VALUES (?, ?, ?)
ON CONFLICT (seq, attempt) DO UPDATE SET output = excluded.output

-- name: put_log_so_far
INSERT INTO logs (seq, attempt, output)
SELECT seq, attempt, ? FROM jobs WHERE seq = ? AND status = 'processing' AND lease_token = ?
ON CONFLICT (seq, attempt) DO UPDATE SET output = excluded.output

-- name: put_result
INSERT INTO results (seq, result) VALUES (?, ?)
ON CONFLICT (seq) DO UPDATE SET result = excluded.result

-- name: extend
UPDATE jobs SET lease_expires_at = max(lease_expires_at, ?)
WHERE seq = ? AND status = 'processing' AND lease_token = ?

-- name: progress
UPDATE jobs SET progress_percent = ?, progress_message = ?
WHERE seq = ? AND status = 'processing' AND lease_token = ?

-- name: held_by_daemon
SELECT id, attempt, lease_token, type, max_retries, failures, losses, started_at,
       cancel_requested
FROM jobs WHERE status = 'processing' AND held_by = 'daemon'

-- name: held_under
SELECT id, attempt, lease_token, type, max_retries, failures, losses, started_at,
       cancel_requested
FROM jobs WHERE seq IN (VALUES (?)) AND status = 'processing' AND held_by = 'remote'

-- name: expired_leases
SELECT id, attempt, lease_token, type, max_retries, failures, losses, started_at,
       cancel_requested
FROM jobs WHERE status = 'processing' AND lease_expires_at <= ?
ORDER BY lease_expires_at LIMIT ?

-- name: next_lease_expiry
SELECT min(lease_expires_at) FROM jobs WHERE status = 'processing'
