"""A link is moved: R = <middle, mover, anchor>, of which the middle is a neighbour of both others.

The link between the *middle* and the *mover* is replaced by one between the mover and the *anchor* (002
section 4.1), under traffic: nothing is lost, doubled or reordered, and no other broker notices.

    middle              mover               anchor
    ask       ->        granted   <-  ->    granted         all three are locked, or one refuses
    open      ->  ->  ->  ->  ->  ->  ->    ready           a link on standby: nobody dials
    open      ->        (dials)   ->  ->    (greets)
                        switches, and says `told`           its events wait for `go`
              <-        switched
    switched  ->  ->  ->  ->  ->  ->  ->    repeats
              <-  ->  ->  <-  <-  <-  <-    repeated, go    the mover's events come now, behind all old ones
    retires the link: passed to both
                        go        ->  ->    (the anchor's events for the mover come, behind all old ones)
              <-  <-  <-  <-  <-  <-  <-    told            once it has `passed`, and the mover has `told`
    told      ->  ->  ->  ->  ->  ->  ->    told
    done      ->  ->  ->  ->  ->  ->  ->    told            to the mover
                        done      ->  ->    over            to both: each closes its end of the old link

**Events** go on all the time. Each direction is switched behind a marker of the data class (`switched`,
`repeated`, `passed`): what takes the new way waits in its sender's outbox until all that took the old way has
passed. From then on, until the tables are right, the anchor repeats between the middle and the mover whatever
comes from the one or would be for it (`detour`).

**Tables.** The mover tells the anchor, at once, what it would tell the middle. When events have been
switched, the anchor tells the mover what it knows; the middle withdraws from the anchor what came from the
mover, so that the anchor has it from the mover only; the anchor tells the middle that. What a broker has from
two sides it keeps when one of them withdraws it (`router`), so nothing is ever gone. Then the middle and the
mover forget what they have from each other. What was presumed to be wanted over the old link is over the new
one. When the old link is gone, the mover withdraws from the anchor what only concerned who left meanwhile.

**Markers and inquiries** of others are held while it goes on: see `draining` and `absence`. A client's
migration passes only when no link is being moved, and the other way round.

**What goes wrong.** Until the mover has switched, it may abandon, and then all do; from then on there is
only forward. Channels bring messages over cut links, and stores bring all three back from a crash. Of a
broker that has lost its memory nobody expects a marker any more:

    the mover     is told by the middle where it belongs (`adopt`): what is for it waits at the anchor
    the anchor    knows nothing of the new link: the middle and the mover go back to theirs (`back`), with
                  what waits for the anchor
    the middle    is told by the mover, when the new link is there, that the old one is over (`ended`); what
                  waits for the middle, and may be for the other, goes over the new link first. The anchor is
                  told, too (`forced`): it begins anew with the middle at once, and each of the two gets
                  everything from the other until it has said what it wants. If that can't be,
                  because the anchor has lost its memory, too, the mover goes back
"""
