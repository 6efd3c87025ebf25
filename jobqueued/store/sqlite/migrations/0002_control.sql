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
