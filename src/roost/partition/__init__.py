"""The partitioned service (004, BlueDove): dispatchers and matchers that scale out.

Decisions, which are pure functions: `dimensions` (where events and subscriptions are), `segments`
(mPartition: who has which part, who can match what), `handover` (matchers come and go), `forwarding` (which
candidate), `attributes` (which attributes are worth a dimension), `fluid` (the best that any forwarding
could do). docs/PARTITION.md.
"""
