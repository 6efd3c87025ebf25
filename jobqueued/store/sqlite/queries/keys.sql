-- name: key_crowd
SELECT (SELECT count(*) FROM jobs
        WHERE type = ?1 AND tenant IS ?2 AND key = ?3 AND status = 'processing'),
       (SELECT count(*) FROM (
           SELECT 1 FROM jobs
           WHERE type = ?1 AND tenant IS ?2 AND key = ?3 AND status = 'pending' AND held_back = 0
           LIMIT ?4)),
       EXISTS (SELECT 1 FROM jobs
               WHERE type = ?1 AND tenant IS ?2 AND key = ?3 AND status = 'pending'
                 AND held_back = 1)

-- name: last_in_front
SELECT -priority, run_at, seq, held_back FROM jobs
WHERE type = ? AND tenant IS ? AND key = ? AND status = 'pending' AND held_back = 0
ORDER BY priority, run_at DESC, seq DESC LIMIT ?

-- name: first_held_back
SELECT -priority, run_at, seq, held_back FROM jobs
WHERE type = ? AND tenant IS ? AND key = ? AND status = 'pending' AND held_back = 1
ORDER BY priority DESC, run_at, seq LIMIT ?

-- name: hold_back
UPDATE jobs SET held_back = 1 WHERE seq IN (VALUES (?))

-- name: let_through
UPDATE jobs SET held_back = 0 WHERE seq IN (VALUES (?))

-- name: first_key
SELECT type, tenant, key FROM jobs
WHERE type = ? AND key IS NOT NULL AND (status = 'pending' OR status = 'processing')
ORDER BY tenant, key LIMIT 1

-- name: next_key
SELECT type, tenant, key FROM jobs
WHERE type = ? AND tenant IS ? AND key > ? AND (status = 'pending' OR status = 'processing')
ORDER BY key LIMIT 1

-- name: next_tenants_key
SELECT type, tenant, key FROM jobs
WHERE type = ? AND tenant > coalesce(?, '') AND key IS NOT NULL
  AND (status = 'pending' OR status = 'processing')
ORDER BY tenant, key LIMIT 1

-- name: key_limits
SELECT type, most FROM key_limits

-- name: put_key_limit
INSERT INTO key_limits (type, most) VALUES (?, ?)
ON CONFLICT (type) DO UPDATE SET most = excluded.most

-- name: delete_key_limit
DELETE FROM key_limits WHERE type = ?

-- name: held_back_job
SELECT type, tenant, key, priority, run_at, seq FROM jobs
WHERE seq = ? AND id = ? AND status = 'pending' AND held_back = 1

-- name: running_of_key
SELECT id FROM jobs
WHERE type = ? AND tenant IS ? AND key = ? AND status = 'processing'

-- name: ahead_in_key
SELECT count(*) FROM (
    SELECT 1 FROM jobs
    WHERE type = ?1 AND tenant IS ?2 AND key = ?3 AND status = 'pending' AND held_back IN (0, 1)
      AND priority > ?4
    UNION ALL
    SELECT 1 FROM jobs
    WHERE type = ?1 AND tenant IS ?2 AND key = ?3 AND status = 'pending' AND held_back IN (0, 1)
      AND priority = ?4 AND run_at < ?5
    UNION ALL
    SELECT 1 FROM jobs
    WHERE type = ?1 AND tenant IS ?2 AND key = ?3 AND status = 'pending' AND held_back IN (0, 1)
      AND priority = ?4 AND run_at = ?5 AND seq < ?6
    LIMIT ?7)
