"""Which link had better be another one: the decisions of self-organising overlays (002), pure functions.

A *rewiring* R = <middle, mover, anchor> replaces the link between the middle and the mover by one between
the mover and the anchor; both were neighbours of the middle (`broker.rewiring` carries it out). Each broker
decides by what has passed through it, and asks nobody:

    counters     what has passed: the paper's by (neighbour, subscription), and Roost's by (source, set of
                 destinations), of which OCBR's couples are sums
    theorem      002's theorem 1 and its U(R): the messages that a rewiring saves, exact by topic
    exact        the same from Roost's counters, exact by content too; and what a rewiring does to delay
    ocbr         what 002 compares itself with
    limits       links that stay, pairs that may not be, and how many neighbours a broker may have
    choosing     the best one above a threshold, with the evidence
    gathering    which of those that save nothing are worth it
    repaying     whether a rewiring pays for moving the tables
    annealing    the threshold and the length of training, adapted to what comes of them
    deciding     one entrance for each variant: the paper's, OCBR's, Roost's own

And for all brokers of a tree at once, without a simulation:

    demand       what is published and wanted where
    flows        what every broker would count, and what it becomes when a link is moved
    rounds       training and reconfiguration of all brokers, each locking three
    kernels      the loops of both over pairs of neighbours, compiled
"""
