"""Jobs: simulations cut into parts, computed by workers anywhere, and cached in a folder.

`scheduler.complete_jobs` computes the missing runs of some jobs. `results_cache` finds what is
missing (a digest names every job) and stores finished parts; `executors` are where workers live;
`workers` play the parts.
"""

from posse.lab.jobs.executors import WorkersLost as WorkersLost
from posse.lab.jobs.executors import count_slots as count_slots
from posse.lab.jobs.executors import dask_cluster as dask_cluster
from posse.lab.jobs.executors import has_workers as has_workers
from posse.lab.jobs.executors import processes as processes
from posse.lab.jobs.results_cache import PartStore as PartStore
from posse.lab.jobs.results_cache import StoreUnwritable as StoreUnwritable
from posse.lab.jobs.results_cache import digest as digest
from posse.lab.jobs.scheduler import complete_jobs as complete_jobs
from posse.lab.jobs.scheduler import dry_run_jobs as dry_run_jobs
from posse.lab.jobs.scheduler import track_progress as track_progress
from posse.lab.jobs.workers import WorkersDiffer as WorkersDiffer
