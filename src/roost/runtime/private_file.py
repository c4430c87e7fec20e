"""Files for their owner's eyes (keys, users), written whole or not at all."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from roost.errors import UserError


def write_private(path: Path, data: bytes) -> None:
    """Replaces a file, in one step that survives a crash. Only its owner can read and write it."""
    path = Path(os.path.realpath(path))  # what a symbolic link points to is replaced, not the link
    temporary = None
    try:
        # Made with mode 0600, before anything is in it.
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
        with open(handle, "wb") as file:
            # An administrator may change a file of the broker's user, who has to read it afterwards.
            with suppress(FileNotFoundError, PermissionError):
                old = path.stat()
                os.fchown(handle, old.st_uid, old.st_gid)
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
        temporary = None
        with _opened_folder(path.parent) as folder:
            os.fsync(folder)
    except OSError as bad:
        raise UserError(f"{path}: can't be written: {bad.strerror or bad}") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Others that want to change the file meanwhile wait. Those that only read it do not."""
    # The folder is locked, because the file is another one when it has been replaced.
    parent = Path(os.path.realpath(path)).parent
    with ExitStack() as held:
        try:
            fcntl.flock(held.enter_context(_opened_folder(parent)), fcntl.LOCK_EX)
        except OSError as bad:
            raise UserError(f"{parent}: {bad.strerror or bad}; expected a folder") from None
        yield


@contextmanager
def _opened_folder(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)
