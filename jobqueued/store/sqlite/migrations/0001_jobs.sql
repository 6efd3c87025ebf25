-- Times are milliseconds since the epoch. `seq` is the time and counter part of the id, so that
-- neither look-ups by id nor lists by age need an index of their own.
CREATE TABLE jobs (
    seq              INTEGER PRIMARY KEY,
    id               TEXT    NOT NULL,
    type             TEXT    NOT NULL,
    status           TEXT    NOT NULL CHECK (status IN (
                         'scheduled', 'pending', 'processing', 'retrying',
                         'completed', 'dead', 'discarded', 'cancelled', 'expired')),
    priority         INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
    max_retries      INTEGER NOT NULL CHECK (max_retries BETWEEN 0 AND 20),
    attempt          INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    failures         INTEGER NOT NULL DEFAULT 0
                         CHECK (failures BETWEEN 0 AND attempt AND failures <= max_retries + 1),
    losses           INTEGER NOT NULL DEFAULT 0 CHECK (losses BETWEEN 0 AND failures),
    created_at       INTEGER NOT NULL,
    run_at           INTEGER NOT NULL,
    started_at       INTEGER,
    finished_at      INTEGER,
    expires_at       INTEGER,
    idempotency_key  TEXT,
    correlation_id   TEXT,
    key              TEXT,
    batch_id         TEXT,
    schedule         TEXT,
    service          TEXT,
    tenant           TEXT,
    worker           TEXT,
    held_by          TEXT CHECK (held_by IN ('daemon', 'remote')),
    lease_token      TEXT,
    lease_expires_at INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
    progress_percent REAL CHECK (progress_percent BETWEEN 0 AND 100),
    progress_message TEXT,
    last_error       TEXT,
    CHECK ((status = 'processing') = (lease_token IS NOT NULL)),
    CHECK ((status = 'processing') = (lease_expires_at IS NOT NULL)),
    CHECK ((status = 'processing') = (held_by IS NOT NULL)),
    CHECK ((status IN ('completed', 'dead', 'discarded', 'cancelled', 'expired'))
           = (finished_at IS NOT NULL)),
    CHECK (status NOT IN ('processing', 'retrying', 'completed', 'dead', 'discarded')
           OR (attempt > 0 AND started_at IS NOT NULL)),
    CHECK (status <> 'retrying' OR failures > 0)
) STRICT;

CREATE TRIGGER jobs_transition BEFORE UPDATE OF status ON jobs
WHEN OLD.status <> NEW.status AND NOT (
    (OLD.status = 'pending' AND NEW.status IN ('processing', 'cancelled', 'expired'))
    OR (OLD.status = 'processing'
        AND NEW.status IN
            ('completed', 'retrying', 'pending', 'scheduled', 'dead', 'cancelled'))
    OR (OLD.status IN ('scheduled', 'retrying')
        AND NEW.status IN ('pending', 'cancelled', 'expired'))
    OR (OLD.status = 'dead' AND NEW.status IN ('pending', 'discarded')))
BEGIN
    SELECT RAISE(ABORT, 'a job cannot go to that status from the one it is in');
END;

CREATE INDEX jobs_pending ON jobs (type, priority, run_at) WHERE status = 'pending';
CREATE INDEX jobs_due ON jobs (run_at) WHERE status IN ('scheduled', 'retrying');
CREATE INDEX jobs_expiring ON jobs (expires_at)
    WHERE expires_at IS NOT NULL AND status IN ('scheduled', 'pending', 'retrying');
CREATE INDEX jobs_processing ON jobs (lease_expires_at) WHERE status = 'processing';
CREATE INDEX jobs_finished ON jobs (status, (idempotency_key IS NULL), finished_at)
    WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_unsuccessful ON jobs (status)
    WHERE status IN ('dead', 'discarded', 'cancelled', 'expired');
CREATE INDEX jobs_type ON jobs (type);
CREATE INDEX jobs_batch ON jobs (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX jobs_idempotency ON jobs (idempotency_key, tenant)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_correlation ON jobs (correlation_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX jobs_key ON jobs (key) WHERE key IS NOT NULL;

-- Apart from the job, because SQLite rewrites a whole row on every update.
CREATE TABLE payloads (
    seq      INTEGER PRIMARY KEY,
    payload  BLOB    NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

CREATE TABLE results (
    seq    INTEGER PRIMARY KEY,
    result BLOB    NOT NULL
) STRICT;

CREATE TABLE attempts (
    seq           INTEGER NOT NULL,
    number        INTEGER NOT NULL CHECK (number > 0),
    worker        TEXT,
    started_at    INTEGER NOT NULL,
    finished_at   INTEGER NOT NULL,
    outcome       TEXT    NOT NULL CHECK (outcome IN (
                      'completed', 'failed', 'fatal', 'timeout',
                      'crashed', 'cancelled', 'interrupted', 'lost')),
    error         TEXT,
    exit_code     INTEGER,
    http_status   INTEGER,
    max_rss_bytes INTEGER,
    cpu_ms        INTEGER,
    PRIMARY KEY (seq, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE logs (
    seq     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    output  BLOB    NOT NULL,
    PRIMARY KEY (seq, attempt)
) STRICT;

CREATE TABLE batches (
    id         TEXT PRIMARY KEY,
    total      INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A batch whose jobs all existed before has no job that could take it along when it goes.
CREATE INDEX batches_empty ON batches (created_at) WHERE total = 0;

-- How many jobs there are of each kind, kept in the transaction that changes them.
CREATE TABLE counts (
    type     TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    n        INTEGER NOT NULL CHECK (n >= 0),
    PRIMARY KEY (type, status, priority)
) STRICT, WITHOUT ROWID;
