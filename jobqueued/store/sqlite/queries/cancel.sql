-- name: states
SELECT id, type, priority, status, tenant, key FROM jobs WHERE seq IN (VALUES (?))

-- name: cancel_waiting
WITH chosen (seq, at) AS (VALUES (?, ?))
UPDATE jobs SET status = 'cancelled', finished_at = chosen.at, cancel_requested = 1
FROM chosen WHERE jobs.seq = chosen.seq AND status IN ('scheduled', 'pending', 'retrying')

-- name: request_cancel
WITH chosen (seq) AS (VALUES (?))
UPDATE jobs SET cancel_requested = 1
FROM chosen WHERE jobs.seq = chosen.seq AND status = 'processing'
