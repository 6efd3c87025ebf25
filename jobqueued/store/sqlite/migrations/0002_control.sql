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
    WHEN 'dead' THEN NEW.status IN ('pending', 'discarded')
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
