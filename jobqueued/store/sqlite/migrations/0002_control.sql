-- What belongs to a job goes with it, in the statement that deletes it.
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs
BEGIN
    DELETE FROM payloads WHERE seq = OLD.seq;
    DELETE FROM results WHERE seq = OLD.seq;
    DELETE FROM attempts WHERE seq = OLD.seq;
    DELETE FROM logs WHERE seq = OLD.seq;
END;

-- And a batch with the last of its jobs.
CREATE TRIGGER batches_emptied AFTER DELETE ON jobs WHEN OLD.batch_id IS NOT NULL
BEGIN
    DELETE FROM batches
    WHERE id = OLD.batch_id AND NOT EXISTS (SELECT 1 FROM jobs WHERE batch_id = OLD.batch_id);
END;
