-- name: ahead_in_lane
SELECT count(*) FROM (
    SELECT 1 FROM jobs
    WHERE status = 'pending' AND held_back = 0 AND type = ?1 AND priority = ?2 AND run_at < ?3
    UNION ALL
    SELECT 1 FROM jobs
    WHERE status = 'pending' AND held_back = 0 AND type = ?1 AND priority = ?2 AND run_at = ?3
      AND seq < ?4
    LIMIT ?5)

-- name: in_front
SELECT count(*) FROM (
    SELECT 1 FROM jobs WHERE status = 'pending' AND held_back = 0 AND type = ? LIMIT ?)

-- name: running_of_type
SELECT id FROM (
    SELECT id, type FROM jobs INDEXED BY jobs_processing WHERE status = 'processing' LIMIT ?)
WHERE type = ? LIMIT ?
