-- Whether a pending job waits behind others of its key. It means nothing in any other status.
ALTER TABLE jobs ADD COLUMN held_back INTEGER NOT NULL DEFAULT 0 CHECK (held_back IN (0, 1));

DROP INDEX jobs_pending;
CREATE INDEX jobs_pending ON jobs (type, priority, run_at)
    WHERE status = 'pending' AND held_back = 0;
CREATE INDEX jobs_keyed ON jobs (type, tenant, key, status, held_back, priority DESC, run_at)
    WHERE key IS NOT NULL AND (status = 'pending' OR status = 'processing');

-- For how many running of one key the jobs of a type are lined up; 0 while that is under way.
CREATE TABLE key_limits (
    type TEXT    PRIMARY KEY,
    most INTEGER NOT NULL CHECK (most >= 0)
) STRICT, WITHOUT ROWID;
