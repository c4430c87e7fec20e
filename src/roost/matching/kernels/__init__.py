"""The compiled part of the fast index: plain functions over one array of 64-bit cells.

`heap` hands out blocks of cells, `idmap` finds a subscription by its id, `sortedlist` and `boxes` are the
two ways in which a group of subscriptions is stored, and `search` answers events. `jit` says how they are
compiled and where the machine code is kept between processes.
"""
