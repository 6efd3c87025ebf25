-- What holds a type of job, or once did: pauses, its breaker, and what its rate has spent.
CREATE TABLE controls (
    type             TEXT PRIMARY KEY,
    paused_at        INTEGER,
    paused_by        TEXT,
    paused_note      TEXT,
    breaker_since    INTEGER,
    breaker_probe_at INTEGER,
    breaker_reason   TEXT,
    spent_until      INTEGER, -- nanoseconds since the epoch
    CHECK ((paused_at IS NULL) = (paused_by IS NULL)),
    CHECK (paused_at IS NOT NULL OR paused_note IS NULL),
    CHECK ((breaker_since IS NULL) = (breaker_probe_at IS NULL)),
    CHECK ((breaker_since IS NULL) = (breaker_reason IS NULL))
) STRICT, WITHOUT ROWID;

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
