"""What a peer that has not logged in can cost a broker: run `python -m tests.runtime.stranger_costs`.

A broker with security on, as a process of its own, is met by many strangers of one kind. What it has more of
memory and has used of the processor, over their number, is what one of them costs. Limits are the usual
ones, but the time for a greeting is long, so that all of them are there at once. The output is the table in
docs/OPERATING.md.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roost.broker.messages import PROTOCOL_VERSION, Attach, Login, Ping
from roost.runtime.child_broker import ChildBroker
from roost.runtime.security import User, changed_users, digest_token, hash_token
from roost.runtime.tls import issue, make_authority
from roost.wire import PREFACE, encode

HOST = "127.0.0.1"
STRANGERS = 2_000
TICKS = os.sysconf("SC_CLK_TCK")
WRONG = encode(Login("nobody", "wrong"))
LONG = 25_000


class Target:
    """A broker to be met."""

    def __init__(self, folder: Path, *, tls: bool = False, old_users: bool = False) -> None:
        with changed_users(folder / "users.toml") as users:
            users["eve"] = User(token_digest=digest_token("right"))
            if old_users:
                users["old"] = User(token_hash=hash_token("right"))
        settings: dict[str, dict[str, Any]] = {
            "limits": {"greeting_s": 600.0},
            "security": {
                "enabled": True,
                "users": str(folder / "users.toml"),
                "refusals": str(folder / "refusals"),
            },
        }
        if tls:
            make_authority(folder)
            issue(folder, "broker", [HOST])
            settings["tls"] = {
                "certificate": str(folder / "broker.pem"),
                "key": str(folder / "broker.key"),
            }
        self.broker = ChildBroker(folder, settings)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.broker.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.broker.pid}/fd"))

    def settle(self) -> None:
        """Until it has nothing more to do."""
        quiet, before = 0, self.cpu_s()
        while quiet < 3:
            time.sleep(0.3)
            now = self.cpu_s()
            quiet = quiet + 1 if now - before < 0.05 else 0
            before = now

    def dial(self) -> socket.socket:
        sock = socket.create_connection((HOST, self.broker.port))
        sock.setblocking(False)
        return sock


Stranger = Callable[[Target], socket.socket]


def says(data: bytes) -> Stranger:
    def stranger(target: Target) -> socket.socket:
        sock = target.dial()
        # As much as the broker takes.
        try:
            while data:
                sock.send(data)
                if len(data) < 1 << 16:
                    break
        except (BlockingIOError, ConnectionError):
            pass
        return sock

    return stranger


def shakes_hands(target: Target) -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sock = socket.create_connection((HOST, target.broker.port))
    return context.wrap_socket(sock)


def measure(what: str, stranger: Stranger, count: int = STRANGERS, **how: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder), **how)
        try:
            # The 19 MiB of argon2 stay with the process from the second login on, however many there are
            # (the allocator gives back the first, and keeps the next): they are no stranger's.
            for _ in range(3 if how.get("old_users") else 0):
                before = says(PREFACE + WRONG)(target)
                target.settle()
                before.close()
            target.settle()
            memory, cpu_s, files = target.broker.resident_bytes(), target.cpu_s(), target.files()
            sockets = [stranger(target) for _ in range(count)]
            target.settle()
            more = max(0, target.broker.resident_bytes() - memory)
            stay = target.files() - files
            used_ms = 1_000 * (target.cpu_s() - cpu_s) / count
            print(
                f"| {what} | {more / count / 1_000:.1f} kB | {stay / count:.2f} | {used_ms:.2f} ms |",
                flush=True,
            )
            for sock in sockets:
                sock.close()
        finally:
            target.broker.stop()


def main() -> None:
    attach = encode(Attach(PROTOCOL_VERSION, "eve", "eve", False, 0, 0))
    flood = PREFACE + WRONG + attach * (1 << 16)
    print("| one stranger that | memory | files | processor |")
    print("| --- | --- | --- | --- |")
    measure("connects and says nothing", says(b""))
    measure(
        "sends a greeting of 25 kB but for its end",
        says(PREFACE + LONG.to_bytes(4, "big") + bytes(LONG - 9)),
    )
    measure("sends 16 pings", says(PREFACE + b"".join(map(encode, map(Ping, range(16))))))
    measure(
        "sends 17 pings, and is refused",
        says(PREFACE + b"".join(map(encode, map(Ping, range(17))))),
    )
    measure("logs in with a wrong token", says(PREFACE + WRONG))
    measure(
        "the same at a file with argon2 hashes, 100 of them",
        says(PREFACE + WRONG),
        100,
        old_users=True,
    )
    measure("the same, with megabytes behind it", says(flood), 100, old_users=True)
    measure("greets without a login", says(PREFACE + attach))
    measure("connects where TLS is on and says nothing", says(b""), tls=True)
    measure("begins with TLS and says nothing", shakes_hands, 500, tls=True)


if __name__ == "__main__":
    main()
