"""Files and folders that are there whole or not at all, and of which the first counts.

Several processes, on several machines that share a file system, decide something by making a file: whoever
is first has decided, and all others read what that was. It survives a crash of the machine, too: what is
named is on the disk before it has its name.
"""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from roost.errors import UserError

# Names that begin so are of what is not finished; readers of folders, Spark among them, pass over those.
UNFINISHED = "."


def decide(path: Path, data: bytes) -> bytes:
    """Make the file with this content, unless somebody has made it before; its content in either case."""
    unfinished = unfinished_beside(path)
    try:
        with unfinished.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return path.read_bytes()
        sync(path.parent)
        return data
    finally:
        unfinished.unlink(missing_ok=True)


def unfinished_beside(path: Path) -> Path:
    """A name for what is to become this file or folder; makes the folder that it is in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as bad:
        raise UserError(
            f"{path.parent}: {bad.strerror or bad}; expected a folder to write to"
        ) from None
    return path.with_name(f"{UNFINISHED}{path.name}.{secrets.token_hex(8)}")


def name_folder(unfinished: Path, path: Path) -> bool:
    """Give a folder, which has files in it, its name; False if somebody has made one of that name before."""
    for file in unfinished.iterdir():
        sync(file)
    sync(unfinished)
    try:
        # A folder with files in it is never replaced.
        unfinished.rename(path)
    except OSError as bad:
        if bad.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    sync(path.parent)
    return True


def sync(path: Path) -> None:
    """Until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
