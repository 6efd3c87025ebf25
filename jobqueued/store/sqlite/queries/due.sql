-- name: due
SELECT seq, type, status, priority, tenant, key FROM jobs
WHERE status IN ('scheduled', 'retrying') AND run_at <= ? ORDER BY run_at LIMIT ?

-- name: promote
UPDATE jobs SET status = 'pending' WHERE seq IN (VALUES (?))

-- name: next_due
SELECT min(run_at) FROM jobs WHERE status IN ('scheduled', 'retrying')

-- name: expiring
SELECT seq, id, type, status, priority, tenant, key FROM jobs
WHERE expires_at IS NOT NULL AND finished_at IS NULL AND status <> 'processing'
  AND expires_at <= ? ORDER BY expires_at LIMIT ?

-- name: next_expiry
SELECT min(expires_at) FROM jobs
WHERE expires_at IS NOT NULL AND finished_at IS NULL AND status <> 'processing'
