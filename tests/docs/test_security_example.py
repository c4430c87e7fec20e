"""The example of security in docs/OPERATING.md, done as it stands there: its commands, and two brokers by
its settings.

Only what this machine can't have is replaced: names of hosts that nobody resolves, and the usual ports.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.client import Refused, connect
from roost.runtime.config import config_of
from roost.runtime.in_process import running
from roost.runtime.toml_file import parse_toml
from tests.cli.support import Roost, make_roost
from tests.client.support import in_loop, numbers, take, until
from tests.docs.blocks import ROOT, Block, blocks_of, lines_of
from tests.docs.commands import programs_of

DOCUMENT = ROOT / "docs" / "OPERATING.md"
BLOCKS = [block for block in blocks_of(DOCUMENT) if not block.language]


def starting(text: str) -> Block:
    return next(block for block in BLOCKS if block.text.startswith(text))


def settings_at(name: str) -> Block:
    return starting(f'[broker]\nname = "{name}"')


@pytest.fixture
def roost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    return make_roost(capsys, monkeypatch)


def test_it_links_and_lets_in_who_may_come(
    roost: Roost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in lines_of(starting("roost keys authority")):
        (words,) = programs_of(line.text.replace("b0.example", "127.0.0.1"))
        if words[0] == "chmod":
            for token in tmp_path.glob("*.token"):
                token.chmod(0o600)
            continue
        ran = roost(*words[1:])
        assert ran.code == 0, ran.err
        _, writes, file = line.text.partition(" > ")
        if writes:
            (tmp_path / file).write_text(ran.out)
    checks = starting("roost users check")
    for line in lines_of(checks):
        (words,) = programs_of(line.text)
        assert roost(*words[1:]).code == 0
    play(tmp_path)


@in_loop
async def play(folder: Path) -> None:
    def text_of(name: str, port: int) -> str:
        text = settings_at(name).text.replace('"b0.example:7411"', f'"127.0.0.1:{port}"')
        for host in ("b0.example", "b1.example"):
            text = text.replace(f'host = "{host}"', 'host = "127.0.0.1"\nport = 0')
        return f"{text}\n[admin]\nport = -1\n"

    first = config_of(parse_toml(text_of("B0", 0), "B0"), folder)
    async with running(first, within_s=1.0) as b0:
        second = config_of(parse_toml(text_of("B1", b0.port), "B1"), folder)
        async with running(second, within_s=1.0) as b1:
            await until(lambda: b1.status()["links"]["B0"]["up"], "B1 is linked with B0")
            token = (folder / "alice.token").read_text().strip()
            who = {"user": "alice", "token": token, "tls": folder / "keys" / "authority.pem"}
            url = f"roosts://127.0.0.1:{b0.port}"
            async with connect(url, **who) as alice:  # type: ignore[arg-type]
                subscription = alice.subscribe("class = 'STOCK'")
                await subscription.ready()
                await alice.publish({"class": "STOCK", "n": 1})
                assert numbers(await take(subscription, 1)) == [1]
                await alice.publish({"class": "NEWS"})
                with pytest.raises(Refused, match="may only advertise what"):
                    await alice.flush()
