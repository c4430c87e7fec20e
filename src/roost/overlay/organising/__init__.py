"""Brokers that rewire their tree by what passes through them (002 section 4.1): `SelfOrganising`, a module.

Each broker *trains*: it counts where messages come from and go to, for some time or some messages. Then it
*reconfigures*: of all pairs of its neighbours it takes the one whose rewiring is best (`overlay.rewiring`),
asks the anchor whether it has room, proposes it to the arbiter of its broker, and has the link moved
(`broker.rewiring`), without losing anything. The anchor measures what came of it. All three begin anew.

    settings    what operators can say: `[overlay]`
    counting    from visits of publications to counters
    deciding    the decision of each variant, and the evidence
    notes       what modules say to their like at a neighbour
    outcomes    at the anchor: what a rewiring has saved, over as many messages as it was decided by
    module      the phases
"""

from roost.overlay.organising.module import SelfOrganising
from roost.overlay.organising.settings import OverlaySettings

__all__ = ["OverlaySettings", "SelfOrganising"]
