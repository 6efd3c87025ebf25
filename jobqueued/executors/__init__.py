"""How jobs are run. Each executor takes a Task and returns an Outcome; none knows the store."""
