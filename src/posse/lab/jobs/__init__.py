"""Jobs: simulations cut into parts, computed by workers anywhere, and cached in a folder.

`scheduler.complete_jobs` computes the missing runs of some jobs. `results_cache` finds what is
missing (a digest names every job) and stores finished parts; `executors` are where workers live;
`workers` play the parts.
"""
