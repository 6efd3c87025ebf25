"""The life of a job: one file for each running part."""
