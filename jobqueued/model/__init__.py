"""The words: jobs, outcomes, retries, types, errors. No I/O, no clock."""
