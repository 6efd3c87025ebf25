-- name: lane_heads
SELECT seq, run_at, expires_at FROM jobs
WHERE status = 'pending' AND type = ? AND priority = ?
ORDER BY run_at, seq LIMIT ?

-- name: claim
UPDATE jobs SET status = 'processing', attempt = attempt + 1, started_at = ?, worker = ?,
       held_by = ?, lease_token = id || '.' || (attempt + 1) || '.' || ?, lease_expires_at = ?,
       progress_percent = NULL, progress_message = NULL
WHERE seq = ?
RETURNING id, attempt, lease_token, max_retries, failures, losses, created_at,
          correlation_id, key, tenant

-- name: payload
SELECT payload, checksum FROM payloads WHERE seq = ?

-- name: expire
UPDATE jobs SET status = 'expired', finished_at = ? WHERE seq = ?

-- name: settle
UPDATE jobs SET
       status = iif(cancel_requested AND :runs_again, 'cancelled', :status),
       finished_at = iif(cancel_requested OR NOT :runs_again, :at, NULL),
       run_at = coalesce(:run_at, run_at), failures = :failures, losses = :losses,
       last_error = coalesce(:failure, last_error), held_by = NULL, lease_token = NULL, lease_expires_at = NULL
WHERE seq = :seq AND status = 'processing' AND lease_token = :token
RETURNING status, type, priority, worker, started_at

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
FROM jobs WHERE seq = ? AND status = 'processing' AND lease_token = ?

-- name: expired_leases
SELECT id, attempt, lease_token, type, max_retries, failures, losses, started_at,
       cancel_requested
FROM jobs WHERE status = 'processing' AND lease_expires_at <= ?
ORDER BY lease_expires_at LIMIT ?

-- name: next_lease_expiry
SELECT min(lease_expires_at) FROM jobs WHERE status = 'processing'
