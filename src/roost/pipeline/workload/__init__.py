"""The workloads of the papers as tables: quotes, publications and subscriptions, as many as wanted.

A table is a function of the seed, its parameters and the number of the row, so it is the same on any number
of cores and partitions, and a part of it is the same as that part of the whole (see `blocks`). `thesis` is
001's, `relocation` 000's, `overlay` 002's, `hierarchy` 003's, `bluedove` 004's; `stock` is that of the
match benchmark and `bars` the daily bars behind the quotes. `registry` has them by name.
"""
