-- name: outlived
SELECT json_group_array(json_array(seq, type, priority)) FROM (
    SELECT seq, type, priority FROM jobs
    WHERE finished_at IS NOT NULL AND status = ? AND (idempotency_key IS NULL) = ?
      AND finished_at <= ?
    ORDER BY finished_at LIMIT ?) AS oldest

-- name: oldest_finished
SELECT min(finished_at) FROM jobs
WHERE finished_at IS NOT NULL AND status = ? AND (idempotency_key IS NULL) = ?

-- name: delete_jobs
DELETE FROM jobs WHERE seq IN (SELECT value FROM json_each(?))

-- name: delete_batches_without_jobs
DELETE FROM batches WHERE id IN (
    SELECT id FROM batches WHERE total = 0 AND created_at <= ? ORDER BY created_at LIMIT ?)
