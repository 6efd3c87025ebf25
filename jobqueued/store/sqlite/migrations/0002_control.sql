-- What holds a type of job, or once did: pauses, its breaker, and what its rate has spent.
CREATE TABLE controls (
    type             TEXT PRIMARY KEY,
    paused_at        INTEGER,
    paused_by        TEXT,
    paused_note      TEXT,
    breaker_since    INTEGER,
    breaker_probe_at INTEGER,
    breaker_reason   TEXT,
    spent_until      TEXT, -- a fraction, such as 5400000000001/3
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

-- A replay that is paced waits for its time like any other job.
DROP TRIGGER jobs_transition;
CREATE TRIGGER jobs_transition BEFORE UPDATE OF status ON jobs
WHEN OLD.status <> NEW.status AND NOT (
    (OLD.status = 'pending' AND NEW.status IN ('processing', 'cancelled', 'expired'))
    OR (OLD.status = 'processing'
        AND NEW.status IN
            ('completed', 'retrying', 'pending', 'scheduled', 'dead', 'cancelled'))
    OR (OLD.status IN ('scheduled', 'retrying')
        AND NEW.status IN ('pending', 'cancelled', 'expired'))
    OR (OLD.status = 'dead' AND NEW.status IN ('pending', 'scheduled', 'discarded')))
BEGIN
    SELECT RAISE(ABORT, 'a job cannot go to that status from the one it is in');
END;

-- The dead letters of one type, newest first or oldest first.
CREATE INDEX jobs_unsuccessful_type ON jobs (status, type)
    WHERE status IN ('dead', 'discarded', 'cancelled', 'expired');

-- What people did to a job. `attempt` is how many attempts there were by then, `payload` what it
-- was before they changed it.
CREATE TABLE changes (
    seq     INTEGER NOT NULL,
    number  INTEGER NOT NULL CHECK (number > 0),
    at      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    action  TEXT    NOT NULL CHECK (action IN ('replay', 'discard', 'cancel', 'run')),
    note    TEXT,
    payload BLOB,
    PRIMARY KEY (seq, number)
) STRICT;
