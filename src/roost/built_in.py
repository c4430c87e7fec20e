"""What Roost itself offers by name, as other packages do in their metadata.

The same stands under `[project.entry-points]` in pyproject.toml, for programs that look there. Brokers look
here first: a tree that was never installed has no metadata, and a name of ours is never somebody else's.
`broker` knows no module, and nothing here is imported until it is asked for by its name.
"""

from __future__ import annotations

from collections.abc import Mapping

MODULES = "roost.modules"
# The module that knows where brokers are, and what it is asked for clients that want to know.
ENTRY, LOCATE = "entry", "locate"
# Group -> name -> the class, as `package.module:Class`.
BUILT_IN: Mapping[str, Mapping[str, str]] = {
    MODULES: {
        "grape": "roost.relocation:Grape",
        "pop": "roost.relocation:Pop",
        "balancing": "roost.balancing:Balancing",
        "overlay": "roost.overlay.organising:SelfOrganising",
        ENTRY: "roost.entry:EntryPoint",
    },
}
