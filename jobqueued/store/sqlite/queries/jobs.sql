-- name: insert_job
INSERT INTO jobs (seq, id, type, status, priority, max_retries, created_at, run_at, expires_at,
                  idempotency_key, correlation_id, key, batch_id, schedule, service, tenant)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_payload
INSERT INTO payloads (seq, payload, checksum) VALUES (?, ?, ?)

-- name: insert_batch
INSERT INTO batches (id, total, created_at) VALUES (?, ?, ?)

-- name: find_idempotency_key
SELECT max(seq) FROM jobs WHERE idempotency_key = ? AND tenant IS ?

-- name: select_jobs
SELECT id, type, status, payload, checksum, priority, max_retries, attempt, failures, created_at,
       run_at, started_at, finished_at, expires_at, idempotency_key, correlation_id, key, batch_id,
       schedule, service, tenant, worker, lease_expires_at, progress_percent, progress_message,
       result, last_error
FROM jobs LEFT JOIN payloads USING (seq) LEFT JOIN results USING (seq)

-- name: last_seq
SELECT coalesce(max(seq), 0) FROM jobs

-- name: read_counts
SELECT type, status, priority, n FROM counts

-- name: add_count
INSERT INTO counts (type, status, priority, n) VALUES (?, ?, ?, ?)
ON CONFLICT (type, status, priority) DO UPDATE SET n = n + excluded.n

-- name: run_now
UPDATE jobs SET status = 'pending', run_at = ?
WHERE seq = ? AND status IN ('scheduled', 'retrying')

-- name: batch
SELECT id, total, created_at FROM batches WHERE id = ?

-- name: batch_counts
SELECT status, count(*), max(finished_at) FROM jobs WHERE batch_id = ? GROUP BY status

-- name: attempts
SELECT number, worker, started_at, finished_at, outcome, error, exit_code, http_status,
       max_rss_bytes, cpu_ms
FROM attempts WHERE seq = ? ORDER BY number

-- name: log
SELECT output FROM logs WHERE seq = ? AND attempt = ?

-- name: oldest_pending
SELECT min(run_at) FROM jobs
WHERE status = 'pending' AND held_back = 0 AND type = ? AND priority = ?

-- name: lower_count
UPDATE counts SET n = n + ? WHERE type = ? AND status = ? AND priority = ?
