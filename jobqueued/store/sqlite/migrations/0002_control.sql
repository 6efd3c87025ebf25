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

-- Where a constraint or the condition of an index has `IN` with more than two values, SQLite makes a
-- table of them anew for every row that is written, which costs more than all the rest. So the same
-- is said without; what is on disk stays as it is.
DROP TRIGGER jobs_transition;
CREATE TRIGGER jobs_transition BEFORE UPDATE OF status ON jobs
WHEN OLD.status <> NEW.status AND NOT CASE OLD.status
    WHEN 'pending' THEN
        NEW.status = 'processing' OR NEW.status = 'cancelled' OR NEW.status = 'expired'
    WHEN 'processing' THEN NEW.status NOT IN ('discarded', 'expired')
    WHEN 'scheduled' THEN
        NEW.status = 'pending' OR NEW.status = 'cancelled' OR NEW.status = 'expired'
    WHEN 'retrying' THEN
        NEW.status = 'pending' OR NEW.status = 'cancelled' OR NEW.status = 'expired'
    -- A replay that is paced waits for its time like any other job.
    WHEN 'dead' THEN
        NEW.status = 'pending' OR NEW.status = 'scheduled' OR NEW.status = 'discarded'
    ELSE false END
BEGIN
    SELECT RAISE(ABORT, 'a job cannot go to that status from the one it is in');
END;

PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(replace(replace(sql,
'status IN (
                         ''scheduled'', ''pending'', ''processing'', ''retrying'',
                         ''completed'', ''dead'', ''discarded'', ''cancelled'', ''expired'')',
'status = ''scheduled'' OR status = ''pending'' OR status = ''processing''
                         OR status = ''retrying'' OR status = ''completed'' OR status = ''dead''
                         OR status = ''discarded'' OR status = ''cancelled'' OR status = ''expired'''),
'(status IN (''completed'', ''dead'', ''discarded'', ''cancelled'', ''expired''))
           =',
'(status = ''completed'' OR status = ''dead'' OR status = ''discarded''
            OR status = ''cancelled'' OR status = ''expired'') ='),
'status NOT IN (''processing'', ''retrying'', ''completed'', ''dead'', ''discarded'')',
'status = ''scheduled'' OR status = ''pending'' OR status = ''cancelled'' OR status = ''expired''')
WHERE name = 'jobs';
UPDATE sqlite_schema SET sql = replace(sql,
'outcome IN (
                      ''completed'', ''failed'', ''fatal'', ''timeout'',
                      ''crashed'', ''cancelled'', ''interrupted'', ''lost'')',
'outcome = ''completed'' OR outcome = ''failed'' OR outcome = ''fatal'' OR outcome = ''timeout''
                      OR outcome = ''crashed'' OR outcome = ''cancelled''
                      OR outcome = ''interrupted'' OR outcome = ''lost''')
WHERE name = 'attempts';
PRAGMA writable_schema = RESET;

DROP INDEX jobs_expiring;
CREATE INDEX jobs_expiring ON jobs (expires_at)
    WHERE expires_at IS NOT NULL AND finished_at IS NULL AND status <> 'processing';
DROP INDEX jobs_unsuccessful;
CREATE INDEX jobs_unsuccessful ON jobs (status)
    WHERE finished_at IS NOT NULL AND status <> 'completed';

-- The dead letters of one type, newest first or oldest first.
CREATE INDEX jobs_unsuccessful_type ON jobs (status, type)
    WHERE finished_at IS NOT NULL AND status <> 'completed';

-- What people did to a job. `attempt` is how many attempts there were by then, `payload` what it
-- was before they changed it.
CREATE TABLE changes (
    seq     INTEGER NOT NULL,
    number  INTEGER NOT NULL CHECK (number > 0),
    at      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    action  TEXT    NOT NULL CHECK (action IN ('replay', 'discard')),
    note    TEXT,
    payload BLOB,
    PRIMARY KEY (seq, number)
) STRICT;

-- What belongs to a job goes with it, in the statement that deletes it.
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs
BEGIN
    DELETE FROM payloads WHERE seq = OLD.seq;
    DELETE FROM results WHERE seq = OLD.seq;
    DELETE FROM attempts WHERE seq = OLD.seq;
    DELETE FROM logs WHERE seq = OLD.seq;
    DELETE FROM changes WHERE seq = OLD.seq;
END;

-- And a batch with the last of its jobs.
CREATE TRIGGER batches_emptied AFTER DELETE ON jobs WHEN OLD.batch_id IS NOT NULL
BEGIN
    DELETE FROM batches
    WHERE id = OLD.batch_id AND NOT EXISTS (SELECT 1 FROM jobs WHERE batch_id = OLD.batch_id);
END;
