"""The promises at the edges, tried from outside.

A *case* is a small story that uses nothing but what any version of Roost has had for long: brokers as
processes with a settings file, the `roost` command, the public client, raw peers, signals. So it runs against
any source tree, and says in a line whether the promise was kept. Nearly all were broken once, at the commit
`BROKEN`; `test_edges` holds today's tree to all of them, and that one to the words in which it failed.

    python -m tests.edges [--tree SOURCE] [CASE ...]
"""

# Where most of them were found.
BROKEN = "1b62682"
