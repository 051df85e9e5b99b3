"""Work: simulations as jobs, cut into parts, computed anywhere and kept in a folder.

`jobs` are what there is to do, `completing` sees that it is done: `part_store` tells what is
missing (`digests` names each job), `cutting` makes parts of it, `flight` carries these to
`workers` and back (`packing` what other processes do not have), `executors` are where workers
live. `preparation` is what comes before the first round, `watching` the progress.
"""
