"""Where operators may have traces written: inside of the folders that the settings name, and nowhere else.

Whoever may administer a broker may not thereby write wherever its process may. So what would be written has
to lie in one of the folders of [trace], after all symbolic links and `..` on the way have been followed;
also of the folders within, in whose place somebody may have put links. (Files are made anew, and a link in
the place of one is removed: see `open_anew`.)
"""

from __future__ import annotations

from pathlib import Path

from roost.errors import UserError
from roost.language.literals import abbreviate
from roost.runtime.tables import ServerConfig
from roost.traces import SCHEMAS
from roost.traces.run import check_run_name, part_path


class ElsewhereError(UserError):
    """A folder that is not for traces."""


def allowed_folders(config: ServerConfig) -> list[Path]:
    """Those of the settings, as they are at this moment."""
    named = [each for each in (config.trace.folder, *config.trace.allowed) if each]
    if not named and config.broker.data:
        named = [config.broker.data]
    return [Path(each).resolve() for each in named]


def checked_folder(config: ServerConfig, folder: str, run: str, part: str) -> Path:
    """Where that really is; ElsewhereError if it is not for traces, ValueError if it is no path at all."""
    allowed, real = allowed_folders(config), Path(folder).resolve()
    places = [real]
    if run:  # else it gets a name that nobody could prepare anything for
        check_run_name(run)
        places += [part_path(real, table, run, part).parent.resolve() for table in SCHEMAS]
    if all(any(place.is_relative_to(each) for each in allowed) for place in places):
        return real
    if not allowed:
        what = "the settings of this broker name no folder for traces"
        raise ElsewhereError(f"{what}; expected [trace] folder or allowed in them")
    names = " or ".join(map(str, allowed))
    what = f"{abbreviate(folder)!r} is not for traces"
    raise ElsewhereError(f"{what}; expected {names}, or a folder inside ([trace] allowed)")
