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
