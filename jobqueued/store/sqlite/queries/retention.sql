-- name: outlived
SELECT seq, type, priority, batch_id FROM jobs
WHERE finished_at IS NOT NULL AND status = ? AND (idempotency_key IS NULL) = ?
  AND finished_at <= ?
ORDER BY finished_at LIMIT ?

-- name: oldest_finished
SELECT min(finished_at) FROM jobs
WHERE finished_at IS NOT NULL AND status = ? AND (idempotency_key IS NULL) = ?

-- name: delete_job
DELETE FROM jobs WHERE seq = ?

-- name: delete_payload
DELETE FROM payloads WHERE seq = ?

-- name: delete_result
DELETE FROM results WHERE seq = ?

-- name: delete_attempts
DELETE FROM attempts WHERE seq = ?

-- name: delete_logs
DELETE FROM logs WHERE seq = ?

-- name: delete_changes
DELETE FROM changes WHERE seq = ?

-- name: delete_batches_without_jobs
DELETE FROM batches WHERE id IN (
    SELECT id FROM batches WHERE total = 0 AND created_at <= ? ORDER BY created_at LIMIT ?)

-- name: delete_empty_batch
DELETE FROM batches WHERE id = ? AND NOT EXISTS (SELECT 1 FROM jobs WHERE batch_id = ?)
