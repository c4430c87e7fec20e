"""Plans: what had better be elsewhere, from recorded traffic; explained, carried out, and taken back.

    placement    who is where
    effect       what that comes to, and what of it counts for how much
    recorded     what is known of a run: who got which publications where, loads, links, what takes how long
    reading      the same from a lake: two profiles on Spark, and a few small tables
    model        what a placement of brokers, links and clients comes to: message rate, delay, load
    proposing    what each optimiser wants, by the decision functions that it has on-line
    planning     all of them together: rounds of proposals, conflicts, the operator's limits
    plan         a plan as a file, with its id and the digest of the placement that it is for
    journal      what has become of each step, so that a plan can be stopped, resumed and undone
    applying     the steps, one after the other, and back
    brokers      those of a live federation, through their admin faces
    workloads    a recorded run as a workload of the simulator, and what-ifs
    replaying    a plan before and after, replayed

`model`, `proposing` and `planning` are pure: from what was recorded to a choice.
"""
