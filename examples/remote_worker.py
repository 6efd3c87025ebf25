# Runs jobs in a program of your own, on this machine or another one.
#
#     [types.transcode]
#     remote = true
#
#     python3 remote_worker.py http://127.0.0.1:5627
import sys

from jobqueued.worker import Worker


def transcode(payload, job):
    """Plain functions run in threads, async ones in the event loop."""
    job.progress(50, "half way")
    return {"video": payload["video"].upper()}


Worker(sys.argv[1], {"transcode": transcode}, concurrency=4).run()
