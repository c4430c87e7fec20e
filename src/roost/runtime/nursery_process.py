"""The process that brokers are forked from: see `nursery`. `python -m roost.runtime.nursery_process`"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from pathlib import Path

import uvloop

from roost.errors import UserError
from roost.runtime import main
from roost.runtime.config import check_config, read_config
from roost.runtime.in_process import start_server
from roost.runtime.nursery import READY, SET_NAME, prctl
from roost.runtime.pair import serve_pair
from roost.runtime.tables import AdminTable, BrokerTable, ServerConfig
from roost.runtime.warming import warm_up

STANDARD = (0, 1, 2)
EXIT_BAD_INPUT = 2  # as of the command


def tell(what: str) -> None:
    """To whoever waits for the brokers."""
    print(what, file=sys.stderr, flush=True)


async def rehearse() -> None:
    """A broker that nobody knows, from its beginning to its end: whatever it loads is there then."""
    check_config(read_config(None))
    here = BrokerTable(host="127.0.0.1", port=0)
    server = await start_server(ServerConfig(broker=here, admin=AdminTable(port=0)))
    await server.stop(within_s=0.0)


def serve() -> None:
    """Fork a broker for each line of standard input."""
    gc.disable()  # memory that it gives back leaves holes, which all would write to
    warm_up(tell, is_watched=sys.stderr.isatty())
    uvloop.run(rehearse())
    gc.enable()
    gc.freeze()
    print(READY, flush=True)
    for line in sys.stdin:
        config, log = map(Path, json.loads(line))
        child = os.fork()
        if not child:
            become(config, log)
        print(child, flush=True)


def become(config: Path, log: Path) -> None:
    """Go on as `roost broker` with these settings, in a session of its own: a broker, and no gateway."""
    os.setsid()
    prctl(SET_NAME, f"roost {config.stem}".encode())
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for file, number in zip((nothing, said, said), STANDARD, strict=True):
        os.dup2(file, number)
    os.close(nothing)
    os.close(said)
    code = 1
    try:
        settings = read_config(config)
        check_config(settings)
        run = serve_pair if settings.standby.role else main.serve
        uvloop.run(run(settings, config))
        code = 0
    except UserError as error:
        code = EXIT_BAD_INPUT
        print(f"error: {error}", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
