"""The settings of a live broker, `roost.toml`: read, checked, written with their reasons, and handed on.

Which settings there are is said in `tables`, and nowhere else.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import Struct
from msgspec import inspect as types

from roost.broker.config import BrokerConfig, BrokerSettings, Leases, UserQuotas
from roost.broker.machines import kind_of
from roost.broker.module import ModuleState
from roost.broker.registry import make_module, module_class, objection_to_ranks, parse_order
from roost.broker.routers import check_router, router_of
from roost.errors import UserError
from roost.language.literals import abbreviate
from roost.runtime.tables import (
    MODULE_TABLES,
    RELOCATING,
    TABLES,
    ModuleTable,
    ServerConfig,
    table_of_module,
)
from roost.runtime.toml_file import (
    TomlFile,
    expected,
    instead,
    objection_to_value,
    read_table,
    read_toml,
    shown,
    toml_value,
)
from roost.wire.limits import Limits

# --- what others need of it -----------------------------------------------------------------------


S = TypeVar("S", bound=Struct)


def broker_config(server: ServerConfig, incarnation: str) -> BrokerConfig:
    """What the machine of the broker has to know."""
    # One user who is away must not fill the store for all.
    shares = (server.quotas.kept_bytes, server.store.retained_bytes_max // 4)
    quotas = _part(UserQuotas, server.quotas)
    return BrokerConfig(
        broker=server.broker.name,
        incarnation=incarnation,
        durable=bool(server.broker.data),
        secured=server.security.enabled,
        store_full_policy=server.store.policy_at_limit,
        subscriptions_max=server.limits.subscriptions_max,
        quotas=msgspec.structs.replace(quotas, kept_bytes=min(filter(None, shares), default=0)),
        leases=_part(Leases, server.optimisers),
        **msgspec.structs.asdict(_part(BrokerSettings, server.broker)),
    )


def limits_of(server: ServerConfig) -> Limits:
    """The limits of what is read from a connection."""
    return _part(Limits, server.limits)


def _part(kind: type[S], table: S) -> S:
    """What a table has from the struct that it derives from."""
    return kind(**{name: getattr(table, name) for name in kind.__struct_fields__})


def login_of(server: ServerConfig) -> tuple[str, str] | None:
    """The user and the token that this broker presents to neighbours; None if it has no token."""
    table = server.security
    token = table.token
    if table.token_file:
        try:
            token = Path(table.token_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as bad:
            what = (isinstance(bad, OSError) and bad.strerror) or "not a text in UTF-8"
            raise UserError(f"{table.token_file}: {what}; expected a file with a token") from None
        if not token:
            raise UserError(f"{table.token_file}: it is empty; expected a token")
    return (table.user or server.broker.name, token) if token else None


_host_and_port = re.compile(
    r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]+)):([0-9]{1,5})", re.ASCII
).fullmatch


def address_of(text: str) -> tuple[str, int]:
    """`host:port`, or `[::1]:port`, to its parts; ValueError if it is none."""
    found = _host_and_port(text)
    if not found or not 0 < int(found[3]) < 65_536:
        raise ValueError(f"{text!r} is no address")
    return found[1] or found[2], int(found[3])


# --- whether it makes sense together --------------------------------------------------------------


def check_config(server: ServerConfig) -> None:
    """For settings that did not come from a file alone; UserError says what will not do."""
    tables: dict[str, Struct | None] = {name: getattr(server, name) for name in TABLES}
    tables |= {name: table.settings for name, table in server.modules.items()}
    for name, table in tables.items():
        for field in msgspec.structs.fields(table) if table is not None else ():
            value = getattr(table, field.name)
            if objection := objection_to_value(value, field.type):
                raise UserError(f"[{name}] {field.name} {objection}")
    for (name, *_), what in objections(server):
        raise UserError(f"[{name}] {what}")


def _objections_to_ranks(server: ServerConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    links, routing = server.links, server.broker.routing
    named = [("super", links.super)] if links.super else []
    named += [("peers", name) for name in links.peers]
    for key, name in named:
        if name not in links.neighbours:
            what = f"{key}: {name} is no neighbour; expected one of neighbours"
            yield ("links", key), what
    if links.super and links.peers:
        what = f"there are peers, and {links.super} is above; expected peers at the top only"
        yield ("links", "peers"), what
    with suppress(UserError):  # which is said elsewhere
        if router_of(routing).strategy.ranks:
            yield from _objections_to_modules_in_ranks(server)
        elif named:
            what = f"{named[0][0]}: routing is {routing}; expected it to be cluster"
            yield ("links", named[0][0]), what


def _objections_to_modules_in_ranks(
    server: ServerConfig,
) -> Iterator[tuple[tuple[str, ...], str]]:
    relocation = server.relocation
    both = RELOCATING if relocation.algorithm == "both" else (relocation.algorithm,)
    on: list[tuple[tuple[str, ...], str]] = []
    if relocation.mode != "off":
        on += [(("relocation", "mode"), name) for name in both]
    on += [((name, "mode"), name) for name, table in server.modules.items() if table.mode != "off"]
    for reference, words in server.optimisers.modules.items():
        with suppress(UserError):  # which is said elsewhere
            if parse_order(reference, words.split()).state is not ModuleState.OFF:
                on.append((("optimisers", "modules", reference), reference))
    for place, name in on:
        with suppress(UserError):
            if objection := objection_to_ranks(module_class(name)):
                yield place, objection


def objections(server: ServerConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    """What does not go together: the path of the key that it shows in, and what is wrong."""
    broker, limits, tls, security = server.broker, server.limits, server.tls, server.security
    if broker.redial_max_s < broker.redial_min_s:
        what = f"redial_max_s is {broker.redial_max_s:g}; expected at least redial_min_s"
        yield ("broker", "redial_max_s"), f"{what}, which is {broker.redial_min_s:g}"
    try:
        check_router(broker.routing)
    except UserError as error:
        yield ("broker", "routing"), str(error)
    try:
        is_broker = kind_of(broker.machine).is_broker
    except UserError as error:
        yield ("broker", "machine"), str(error)
    else:
        if server.optimisers.modules and not is_broker:
            what = f"there are modules, and the machine is {broker.machine}; expected a broker"
            yield ("optimisers", "modules"), what
    for reference, words in server.optimisers.modules.items():
        try:
            name = make_module(parse_order(reference, words.split())).name
        except UserError as error:
            yield ("optimisers", "modules", reference), str(error)
            continue
        if name in server.modules:
            what = f"there is a table [{name}], too; expected one of them"
            yield ("optimisers", "modules", reference), f"modules: {reference} is there, and {what}"
    for name, address in server.links.neighbours.items():
        place = ("links", "neighbours", name)
        if name in ("", broker.name):
            what = "the broker's own name" if name else "empty"
            yield place, f"a neighbour's name is {what}; expected that of another broker"
        try:
            for each in (address or "us:1").split(","):
                address_of(each)
        except ValueError:
            what = f"the address of {name} is {shown(address)}"
            yield place, f'{what}; expected "host:port" to dial it, or "" if it dials us'
    yield from _objections_to_ranks(server)
    for small, large in (
        ("publication_bytes_max", "frame_bytes_max"),
        ("payload_bytes_max", "publication_bytes_max"),
    ):
        have, bound = getattr(limits, small), getattr(limits, large)
        if have >= bound:
            what = f"{small} is {have}; expected less than {large}, which is {bound}"
            yield ("limits", small), what
    if server.admin.port > 0 and server.admin.port == broker.port:
        what = f"port is {broker.port}, which is the broker's own; expected another, or -1 for none"
        yield ("admin", "port"), what
    yield from _objections_to_gateway(server)
    yield from _objections_to_standby(server)
    if tls.key and not tls.certificate:
        yield ("tls", "key"), "there is a key; expected a certificate for it"
    if tls.certificate and not tls.key:
        yield ("tls", "certificate"), "there is a certificate; expected the key for it"
    if tls.require_client_certificate and not (tls.certificate and tls.authority):
        what = "require_client_certificate is true; expected a certificate, a key and an authority"
        yield ("tls", "require_client_certificate"), what
    if security.enabled and not security.users:
        yield ("security", "enabled"), "enabled is true; expected users, the path of the users file"
    if security.token and security.token_file:
        yield ("security", "token_file"), "there are token and token_file; expected one of them"


def _objections_to_gateway(server: ServerConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    gateway = server.gateway
    if gateway.port > 0 and gateway.port in (server.broker.port, server.admin.port):
        what = f"port is {gateway.port}, which is the broker's own"
        yield ("gateway", "port"), f"{what}; expected another, or -1 for none"
    if bool(gateway.certificate) != bool(gateway.key):
        key = "certificate" if gateway.certificate else "key"
        yield ("gateway", key), f"there is a {key}; expected certificate and key"
    if gateway.port >= 0 and server.tls.require_client_certificate:
        what = "the broker asks clients for certificates, and the gateway has none"
        yield ("gateway", "port"), f"port is {gateway.port}, and {what}; expected -1"


def _objections_to_standby(server: ServerConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    standby = server.standby
    for key in ("address", "witness", "beside", "witness_for"):
        try:
            address_of(getattr(standby, key) or "us:1")
        except ValueError:
            what = f"{key} is {shown(getattr(standby, key))}"
            yield ("standby", key), f'{what}; expected "host:port"'
    if not standby.role and standby.address:
        yield ("standby", "address"), "there is an address; expected role, primary or standby"
    if standby.role and not standby.address:
        what = f"role is {standby.role}; expected address, where the two meet"
        yield ("standby", "role"), what
    if (standby.role or standby.witness_for) and not server.broker.data:
        key = "role" if standby.role else "witness_for"
        yield ("standby", key), f"there is {key}; expected [broker] data, the folder of a store"
    if standby.witness and not standby.alone:
        what = "there is a witness, and alone is false"
        yield ("standby", "witness"), f"{what}; expected it to be true: else nobody asks a witness"


# --- reading --------------------------------------------------------------------------------------


def read_config(path: Path | None) -> ServerConfig:
    """The settings of a file, checked; without one, the defaults."""
    if path is None:
        return ServerConfig()
    return config_of(read_toml(path, "a config file"), path.parent)


def config_of(file: TomlFile, folder: Path) -> ServerConfig:
    """The settings that a text says; paths in it are relative to the folder."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(ServerConfig)}
    tables = {name: kinds[name] for name in TABLES}
    read, modules = {}, {}
    for name in file.tree:
        if name in MODULE_TABLES:
            modules[name] = _module_table(file, name, folder)
        elif name not in tables:
            _refuse_table(file, name, tables)
        else:
            read[name] = read_table(file, (name,), tables[name], folder)
    said = {name: table for name, table in modules.items() if table != ModuleTable()}
    server = ServerConfig(**read, modules=said)
    for place, what in objections(server):
        file.refuse(place, f"[{place[0]}] {what}")
    return server


def _module_table(file: TomlFile, name: str, folder: Path) -> ModuleTable:
    """The table of a module, which is looked for only now that there is one."""
    read: Any = read_table(file, (name,), table_of_module(name), folder)
    config = module_class(name).Config
    if config is None or (settings := _part(config, read)) == config():
        return ModuleTable(mode=read.mode)
    return ModuleTable(mode=read.mode, settings=settings)


def _refuse_table(file: TomlFile, name: str, tables: Mapping[str, type[Struct]]) -> NoReturn:
    if not isinstance(file.tree[name], dict):
        having = [table for table, kind in tables.items() if name in kind.__struct_fields__]
        where = " or ".join(f"[{table}]" for table in having or tables)
        file.refuse(
            (name,), f"{abbreviate(name)} stands outside of a table; expected it in {where}"
        )
    raise file.refusal(
        (name,),
        f"there is no table [{abbreviate(name)}];"
        f" {instead(name, (*tables, *MODULE_TABLES), '[{}]')}",
    )


# --- writing --------------------------------------------------------------------------------------

WIDTH = 100
HEADER = "The settings of a Roost broker, with their defaults. Leave out what you do not change."


def documented() -> str:
    """The defaults as a file, with what each setting is for; `read_config` gives them back."""
    lines = list(_comment(HEADER))
    default = ServerConfig()
    tables: dict[str, Struct] = {name: getattr(default, name) for name in TABLES}
    tables |= {name: table_of_module(name)() for name in MODULE_TABLES}
    for name, table in tables.items():
        about = " ".join((type(table).__doc__ or "").split())
        lines += ["", *_comment(about), f"[{name}]"]
        for field in own_first(type(table)):
            info = types.type_info(field.type)
            assert isinstance(info, types.Metadata), f"[{name}] {field.name} has no reason"
            said = (info.extra_json_schema or {})["description"]
            if isinstance(info.type, types.LiteralType):
                said = f"{said} Either {expected(info.type)}."
            value = getattr(table, field.name)
            lines += ["", *_comment(said), f"{field.name} = {toml_value(value)}"]
    return "".join(f"{line}\n" for line in lines)


def own_first(kind: type[Struct]) -> list[msgspec.structs.FieldInfo]:
    """The fields of a table: first its own, then those that it has in common with others."""
    fields = msgspec.structs.fields(kind)
    return sorted(fields, key=lambda field: field.name not in kind.__annotations__)


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False):
        yield f"# {line}"
