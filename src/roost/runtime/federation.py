"""A federation of brokers on this machine, each a process of its own: started, remembered, ended.

A folder holds all there is of it:

    federation.json   which brokers there are, where they listen, which processes they are
    NAME.toml         the settings of each, as `roost broker --config` reads them
    NAME.log          what each has said
    data/NAME/        its store, if it has one

The federation outlives whoever started it. What is in `federation.json` is what `end` ends, and nothing
else: a process is known by more than its number (see `processes`). It is written as each broker starts, so
that they can be ended even if we were.

**Ports** are taken from below those that the system gives to outgoing connections. Else a broker that dials
a neighbour which is not there yet might be given just the port of a third, or even reach itself.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import socket
import time
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from roost.errors import UserError
from roost.runtime import processes
from roost.runtime.admin_client import AdminError, ask_all
from roost.runtime.broker_process import Tables, write_settings
from roost.runtime.nursery import starting
from roost.runtime.processes import Ending, Process

DEFAULT_STATE = Path(".roost")
RECORD = "federation.json"
# Says that a folder is ours, and keeps what is in it out of somebody's repository.
MARK, MARK_TEXT = ".gitignore", "# A folder of `roost up`.\n*\n"
HOST = "127.0.0.1"
# Each is a process, of twelve megabytes of its own and what comes with its clients.
BROKERS_MAX = 256
PORT_MIN, PORT_MAX = 10_000, 65_535
# Brokers start at the same time, a second of a processor each.
START_S, START_S_A_BROKER = 30.0, 3.0
LOOK_EVERY_S = 0.1
# A broker takes up to ten seconds to make safe what it has.
END_S = 15.0
LOG_LINES_SHOWN = 5
# The dialled end may start later, on the same machine: it is not worth waiting for long.
REDIAL_S = (0.1, 2.0)
# What the name of a standby ends in, among the members.
STANDBY = "-standby"
# The routing of a hierarchy.
CLUSTER = "cluster"


class Member(Struct, frozen=True, kw_only=True):
    """One broker of the federation."""

    name: str
    host: str
    port: int
    admin_port: int
    config: str  # the files of it, within the folder
    log: str
    process: Process | None = None  # None: not started yet
    # Of a broker that has a standby: that other node's name among the members, and where the two meet.
    beside: str = ""
    meets: str = ""
    standby_of: str = ""  # the broker that it is the standby of

    @property
    def broker(self) -> str:
        """What it is called in the federation."""
        return self.standby_of or self.name

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://{self.host}:{self.admin_port}"


class Federation(Struct, frozen=True, kw_only=True):
    """All of it, as the folder remembers it."""

    title: str  # what it was made from
    durable: bool
    members: tuple[Member, ...]
    links: tuple[tuple[str, str], ...]  # the second dials
    # In a hierarchy (`broker.hierarchy`): links of the two topmost; of any other the first is the super.
    peers: tuple[tuple[str, str], ...] = ()
    routing: str = ""  # "": as usual

    def running(self) -> list[Member]:
        return [x for x in self.members if x.process is not None and processes.is_alive(x.process)]


# --- starting ---------------------------------------------------------------------------------------


def start(
    state: Path,
    brokers: Sequence[str],
    links: Sequence[tuple[str, str]],
    *,
    title: str = "",
    durable: bool = False,
    base_port: int | None = None,
    optimisers: Tables | None = None,
    modules: Mapping[str, str] | None = None,
    machines: Mapping[str, str] | None = None,
    peers: Sequence[tuple[str, str]] = (),
    routing: str = "",
    standbys: bool = False,
    bandwidth_mbps: float = 0.0,
) -> Federation:
    """Start these brokers, and return when all of them are well and linked. Else none is left running.

    `optimisers` are tables of their settings, the same for all, and `modules` those of `[optimisers]`.
    `machines` says of those that are no brokers what they are. `peers` are links of a hierarchy. With
    `standbys` each has one, and a store. `bandwidth_mbps` is what each may send, for optimisers; 0: nobody
    knows.
    """
    if not 1 <= len(brokers) <= BROKERS_MAX:
        raise UserError(f"{len(brokers):,} brokers; expected 1 to {BROKERS_MAX}, each is a process")
    with locked(state, make=True):
        _check_ours(state)
        old = read(state)
        if old is not None and (running := old.running()):
            raise UserError(
                f"{state}: a federation runs from this folder, with {_count(len(running))};"
                f" end it with {_command('down', state)}, or use another folder with --state"
            )
        (state / RECORD).unlink(missing_ok=True)
        federation = msgspec.structs.replace(
            _planned(
                brokers,
                [*links, *peers],
                title,
                durable=durable or standbys,
                base_port=base_port,
                standbys=standbys,
            ),
            peers=tuple(peers),
            routing=routing,
        )
        _write_configs(
            state, federation, optimisers or {}, modules or {}, machines or {}, bandwidth_mbps
        )
        try:
            federation = _started(state, federation)
            _wait_until_linked(state, federation)
        except BaseException:
            _end(state, read(state) or federation)
            raise
        return federation


def _planned(
    brokers: Sequence[str],
    links: Sequence[tuple[str, str]],
    title: str,
    *,
    durable: bool,
    base_port: int | None,
    standbys: bool,
) -> Federation:
    ports = iter(free_ports((5 if standbys else 2) * len(brokers), base_port))
    members = [
        _member(name, number, (next(ports), next(ports))) for number, name in enumerate(brokers)
    ]
    if standbys:
        members = [
            each
            for number, member in enumerate(members)
            for each in _paired(member, number, (next(ports), next(ports), next(ports)))
        ]
    return Federation(title=title, durable=durable, members=tuple(members), links=tuple(links))


def _member(name: str, number: int, ports: tuple[int, int]) -> Member:
    file = _file_name(name, number)
    return Member(
        name=name,
        host=HOST,
        port=ports[0],
        admin_port=ports[1],
        config=f"{file}.toml",
        log=f"{file}.log",
    )


def _paired(member: Member, number: int, ports: tuple[int, int, int]) -> tuple[Member, Member]:
    """A broker and its standby."""
    meets, name = f"{HOST}:{ports[2]}", f"{member.name}{STANDBY}"
    other = _member(name, number, (ports[0], ports[1]))
    file = f"{member.config.removesuffix('.toml')}{STANDBY}"
    return (
        msgspec.structs.replace(member, beside=name, meets=meets),
        msgspec.structs.replace(
            other,
            config=f"{file}.toml",
            log=f"{file}.log",
            beside=member.name,
            meets=meets,
            standby_of=member.name,
        ),
    )


_is_file_name = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}").fullmatch


def _file_name(name: str, number: int) -> str:
    """The name where it can be that of a file, else one that no broker has."""
    return name if _is_file_name(name) else f"~{number}"


def free_ports(count: int, base: int | None = None) -> list[int]:
    """Ports that are free just now: those from the base on, or any."""
    if base is not None:
        if not 0 < base <= PORT_MAX + 1 - count:
            raise UserError(
                f"the ports {base} to {base + count - 1}; expected 1 to {PORT_MAX}, two for each broker"
            )
        ports = list(range(base, base + count))
        if taken := [port for port in ports if not _is_free(port)]:
            raise UserError(f"port {taken[0]} is in use; expected {count} free ones from {base} on")
        return ports
    low, high = PORT_MIN, _first_outgoing_port()
    if high - low < 10 * count:
        low, high = PORT_MIN, PORT_MAX + 1  # whoever has set it so has few ports to spare
    ports = []
    at = random.randrange(low, high)  # others may choose at the same time
    for offset in range(high - low):
        port = low + (at + offset - low) % (high - low)
        if _is_free(port):
            ports.append(port)
            if len(ports) == count:
                return ports
    raise UserError(f"there are no {count} free ports from {low} to {high - 1}")


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768  # as it is unless somebody has changed it


def _write_configs(
    state: Path,
    federation: Federation,
    optimisers: Tables,
    modules: Mapping[str, str],
    machines: Mapping[str, str],
    bandwidth_mbps: float,
) -> None:
    for member in federation.members:
        data = f"data/{member.config.removesuffix('.toml')}" if federation.durable else ""
        tables: dict[str, Mapping[str, object]] = {
            "broker": {
                "name": member.broker,
                "host": member.host,
                "port": member.port,
                "data": data,
                "redial_min_s": REDIAL_S[0],
                "redial_max_s": REDIAL_S[1],
                **({"machine": machines[member.name]} if member.name in machines else {}),
                **({"routing": federation.routing} if federation.routing else {}),
                **({"bandwidth_mbps": bandwidth_mbps} if bandwidth_mbps else {}),
            },
            "links": _links_of(federation, member.broker),
            "standby": _standby_of(federation, member),
            "admin": {"host": member.host, "port": member.admin_port},
            # Whoever started it may have traces where it was started: `roost trace on traces`.
            "trace": {"allowed": [str(Path.cwd())]},
            "optimisers": {"modules": modules} if modules else {},
            **optimisers,
        }
        remark = "Written by `roost up`, which writes it anew each time."
        write_settings(state / member.config, tables, remark)


def _standby_of(federation: Federation, member: Member) -> dict[str, object]:
    if not member.beside:
        return {}
    (other,) = (each for each in federation.members if each.name == member.beside)
    role = "standby" if member.standby_of else "primary"
    return {"role": role, "address": member.meets, "beside": other.address}


def _links_of(federation: Federation, name: str) -> dict[str, object]:
    """Its neighbours, with an address for those that it dials; in a hierarchy, who of them is what."""
    addresses: dict[str, str] = {}
    for member in federation.members:
        known = addresses.get(member.broker)
        addresses[member.broker] = f"{known},{member.address}" if known else member.address
    neighbours: dict[str, str] = {}
    above: list[str] = []
    peers: list[str] = []
    for called, dials in federation.links:
        if name in (called, dials):
            other = dials if name == called else called
            neighbours[other] = addresses[called] if name == dials else ""
            if (called, dials) in federation.peers:
                peers.append(other)
            elif name == dials:
                above.append(other)
    if federation.routing != CLUSTER:
        return {"neighbours": neighbours}
    return {"neighbours": neighbours, "super": "".join(above), "peers": peers}


# --- one more (see `growing`) -----------------------------------------------------------------------


def running_federation(state: Path) -> Federation:
    """What was started from this folder; UserError if nothing was."""
    federation = read(state)
    if federation is None:
        raise UserError(f"{state}: no federation was started from this folder")
    return federation


def planned_nodes(name: str, number: int, *, standby: bool) -> tuple[Member, ...]:
    """Of one more broker: one, or two if it has a standby."""
    ports = iter(free_ports(5 if standby else 2))
    member = _member(name, number, (next(ports), next(ports)))
    if not standby:
        return (member,)
    return _paired(member, number, (next(ports), next(ports), next(ports)))


def write_config(state: Path, federation: Federation, new: Member, like: Member) -> None:
    """Its settings: those of another one, but for who and where it is."""
    tables = tomllib.loads((state / like.config).read_text("utf-8"))
    own = {"name": new.broker, "host": new.host, "port": new.port}
    if federation.durable:
        own["data"] = f"data/{new.config.removesuffix('.toml')}"
    tables["broker"] |= own
    tables["links"] = _links_of(federation, new.broker)
    tables["standby"] = _standby_of(federation, new)
    tables["admin"] = {"host": new.host, "port": new.admin_port}
    write_settings(state / new.config, tables, "Written by `roost join`.")


def start_nodes(state: Path, federation: Federation, broker: str) -> Member:
    """Its process, and that of its standby; when it is well and linked, return."""
    started = _started(state, federation, [m.name for m in nodes_of(federation, broker)])
    nodes = nodes_of(started, broker)
    try:
        _wait_until_linked(state, msgspec.structs.replace(started, members=nodes))
    except BaseException:
        end_nodes(state, started, broker)
        raise
    return nodes[0]


def nodes_of(federation: Federation, broker: str) -> tuple[Member, ...]:
    """The processes of one broker: one, or two if it has a standby."""
    return tuple(member for member in federation.members if member.broker == broker)


def end_nodes(state: Path, federation: Federation, broker: str) -> None:
    """Its processes end, and the folder knows it no longer."""
    nodes = nodes_of(federation, broker)
    processes.end([node.process for node in nodes if node.process is not None], END_S)
    others = tuple(member for member in federation.members if member.broker != broker)
    links = tuple(link for link in federation.links if broker not in link)
    write_record(state, msgspec.structs.replace(federation, members=others, links=links))


def start_again(
    state: Path, federation: Federation, member: Member, running: Collection[str]
) -> Member:
    """A new process for it; when it is well, and linked with those that run, return."""
    with (state / member.log).open("a", encoding="utf-8") as log:
        log.write("--- started again ---\n")
    started = _started(state, federation, [member.name], anew=False)
    (member,) = (each for each in started.members if each.name == member.name)
    _wait_until_linked(state, msgspec.structs.replace(started, members=(member,)), running)
    return member


def _started(
    state: Path,
    federation: Federation,
    names: Collection[str] | None = None,
    *,
    anew: bool = True,  # with a log that is empty
) -> Federation:
    """With a process for each, remembered as soon as it is there."""
    members = list(federation.members)
    wanted = [n for n, member in enumerate(members) if names is None or member.name in names]
    with starting(len(wanted)) as start_one:
        for number in wanted:
            member = members[number]
            config, log = (state.absolute() / file for file in (member.config, member.log))
            if anew:
                log.unlink(missing_ok=True)
            process = start_one(config, log)
            members[number] = msgspec.structs.replace(member, process=process)
            federation = msgspec.structs.replace(federation, members=tuple(members))
            write_record(state, federation)
    return federation


def _wait_until_linked(
    state: Path, federation: Federation, running: Collection[str] | None = None
) -> None:
    """Until every broker says that it is well, and has all its links; UserError if that takes too long.

    Links are those with brokers that run, where it is said which do.
    """
    patience_s = START_S + START_S_A_BROKER * len(federation.members)
    deadline = time.monotonic() + patience_s
    missing = {member.name: "no answer" for member in federation.members}
    while missing:
        for member in federation.members:
            _check_runs(state, member)
        waiting = [member for member in federation.members if member.name in missing]
        answers = ask_all([member.admin_url for member in waiting], "/status")
        for member, answer in zip(waiting, answers, strict=True):
            missing[member.name] = _missing(member, answer, running)
        missing = {name: what for name, what in missing.items() if what}
        if missing and time.monotonic() > deadline:
            name, what = next(iter(missing.items()))
            raise UserError(f"{name} is not ready after {patience_s:.0f} s: {what}")
        time.sleep(LOOK_EVERY_S if missing else 0)


def _missing(
    member: Member, answer: dict[str, Any] | AdminError, running: Collection[str] | None
) -> str:
    """What keeps a broker from being ready; "" if it is."""
    if isinstance(answer, AdminError):
        return str(answer)
    if member.process is None or answer["pid"] != member.process.pid:
        return f"somebody else answers at {member.admin_url}"
    pair = answer.get("standby")
    if pair is not None and not (pair["role"] == "leader" or pair["member"]):
        return pair["trouble"] or "it has not found the other node"
    down = [
        name
        for name, link in answer["links"].items()
        if not link["up"] and (running is None or name in running)
    ]
    return answer["trouble"] or (f"no link to {', '.join(down)}" if down else "")


def _check_runs(state: Path, member: Member) -> None:
    assert member.process is not None
    code = processes.exit_code(member.process)
    if code is not None:
        log = state / member.log
        said = "\n  ".join(log.read_text("utf-8", "replace").splitlines()[-LOG_LINES_SHOWN:])
        raise UserError(f"{member.name} did not start (exit code {code}); {log} says:\n  {said}")


# --- ending -----------------------------------------------------------------------------------------


def end(state: Path) -> list[tuple[Member, Ending]]:
    """End what was started from this folder; nothing if nothing was. Logs and stores stay."""
    if not state.is_dir():
        return []
    with locked(state):
        federation = read(state)
        return [] if federation is None else _end(state, federation)


def _end(state: Path, federation: Federation) -> list[tuple[Member, Ending]]:
    started = [(x, x.process) for x in federation.members if x.process is not None]
    endings = processes.end([process for _, process in started], END_S)
    (state / RECORD).unlink(missing_ok=True)
    return [(member, ending) for (member, _), ending in zip(started, endings, strict=True)]


# --- the folder -------------------------------------------------------------------------------------


def read(state: Path) -> Federation | None:
    """What was started from this folder, and not ended since."""
    path = state / RECORD
    try:
        return msgspec.json.decode(path.read_bytes(), type=Federation)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise UserError(f"{path}: not as `roost up` writes it: {error}") from None


def _check_ours(state: Path) -> None:
    """Nobody else's files are overwritten."""
    mark = state / MARK
    if not any(state.iterdir()):
        mark.write_text(MARK_TEXT)
    elif not mark.is_file() or mark.read_text("utf-8", "replace") != MARK_TEXT:
        raise UserError(
            f"{state}: there are files in it that `roost up` has not made; expected a folder that is new"
        )


def write_record(state: Path, federation: Federation) -> None:
    """Whole or not at all: it is all that is known of what runs."""
    new = state / f"{RECORD}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(federation)) + b"\n")
    new.replace(state / RECORD)


@contextmanager
def locked(state: Path, make: bool = False) -> Iterator[None]:
    """One at a time; the next waits."""
    try:
        if make:
            state.mkdir(parents=True, exist_ok=True)
        folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        what = f"can't be the folder of a federation: {error.strerror or error}"
        raise UserError(f"{state}: {what}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _count(brokers: int) -> str:
    return "1 broker" if brokers == 1 else f"{brokers} brokers"


def _command(verb: str, state: Path) -> str:
    return f"`roost {verb}`" if state == DEFAULT_STATE else f"`roost {verb} --state {state}`"
