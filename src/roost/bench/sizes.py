"""How large the benchmarks are, if not asked otherwise. Imports nothing: the help shows it."""

SEED = 7
BATCH = 4_096
EVENTS = 4 * BATCH
SUBSCRIPTIONS = 40_000

POSET_SUBSCRIPTIONS = 100_000

SIM_BROKERS = 63
SIM_SUBSCRIBERS = 2_000

# What `roost bench` runs of the match benchmark: workload, subscriptions, subscriptions replaced/s.
MATCH_RUNS = (("bluedove", 40_000, 0), ("stock", 100_000, 0), ("stock", 1_000_000, 10_000))

PIPELINE_SUBSCRIPTIONS = 40_000
PIPELINE_PUBLICATIONS = 100_000
PIPELINE_STOCK_SUBSCRIPTIONS = 1_000_000
PIPELINE_STOCK_PUBLICATIONS = 200_000

MOVES = 200
MOVES_BROKERS = 5
MOVES_PUBLISHERS = 4
MOVES_RATE = 200.0

GATEWAY_SINKS = 20
GATEWAY_EVENTS = 1_000
