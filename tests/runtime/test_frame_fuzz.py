"""Hostile streams: the same for the same seed, of every kind, and borne by a broker."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from roost.broker.messages import Frame
from roost.runtime import frame_fuzz_run
from roost.runtime.frame_fuzz import KINDS, Cast, Stream, stream
from roost.runtime.frame_fuzz_run import STREAMS_A_ROUND, Report, Stage, run
from roost.wire import StreamDecoder, WireError

FRAMES = 20_000
CAST = Cast("mallory", "t" * 49, "N", "n" * 49, ("good~pub", "good~sub/1"))


@pytest.fixture(scope="module")
def some() -> list[Stream]:
    return [stream(seed, number, CAST) for seed in range(10) for number in range(STREAMS_A_ROUND)]


def test_a_seed_says_it_all(some: list[Stream]) -> None:
    assert some[:50] == [stream(n // STREAMS_A_ROUND, n % STREAMS_A_ROUND, CAST) for n in range(50)]
    assert len({b"".join(each.pieces) for each in some}) > 0.95 * len(some)


def test_there_are_all_kinds_and_endings(some: list[Stream]) -> None:
    assert {each.kind for each in some} == set(KINDS)
    assert {each.ending for each in some} == {"read", "close", "reset", "deaf"}
    assert sum(each.frames for each in some) / len(some) > 20


def test_most_get_past_the_door_and_most_break_a_rule_of_bytes_or_of_protocol(
    some: list[Stream],
) -> None:
    said: Counter[str] = Counter()
    for each in some:
        decoder = StreamDecoder()
        try:
            parcels = decoder.feed(b"".join(each.pieces))
        except WireError as error:
            parcels = list(error.parcels)
            said["broken"] += 1
        said["with frames"] += any(isinstance(parcel, Frame) for parcel in parcels)
    assert said["with frames"] > 0.8 * len(some)
    assert 0.25 * len(some) < said["broken"] < 0.6 * len(some)


@pytest.mark.parametrize(("durable", "count"), [(False, FRAMES), (True, FRAMES // 10)])
def test_a_broker_bears_it(durable: bool, count: int) -> None:
    report = asyncio.run(run(1, count, durable=durable))
    assert report.violations == []
    assert report.replay == ""
    assert report.frames >= count
    assert report.serves
    assert (report.lost, report.hangs) == (0, 0)
    assert report.exchanged > 10
    # They were heard, not just turned away.
    assert report.refused > 0.4 * report.connections
    if not durable:  # else refusals wait for the disk, and who hangs up meanwhile hears none
        assert report.requests_refused > 0.2 * report.connections
    assert report.reasons > 20


# --- what the driver notices ----------------------------------------------------------------------


async def play_once(stage: Stage) -> list[str]:
    return await stage.play(1, range(4), Report(seed=1))


def test_a_traceback_and_a_death_are_noticed(tmp_path: Path) -> None:
    async def main() -> list[list[str]]:
        async with Stage(tmp_path, durable=False) as stage:
            well = await play_once(stage)
            with (tmp_path / "said").open("a") as said:
                said.write("Traceback (most recent call last):\nKeyError: 'x'\n")
            complaining = await play_once(stage)
            stage.broker.stop()
            return [well, complaining, await play_once(stage)]

    well, complaining, dead = asyncio.run(main())
    assert well == []
    assert complaining[-1].startswith("the broker complains:")
    assert "KeyError: 'x'" in complaining[-1]
    assert "the broker has ended, with exit code 0" in dead


def test_an_event_that_does_not_arrive_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_fuzz_run, "HANG_S", 0.5)

    async def main() -> tuple[list[str], Report]:
        report = Report(seed=1)
        async with Stage(tmp_path, durable=False) as stage:
            stage.bystanders._publisher.published += 3  # three that were never published
            return await stage.play(1, range(4), report), report

    wrong, report = asyncio.run(main())
    assert wrong
    assert "came where" in wrong[0] or "have not arrived" in wrong[0]
    assert not report.serves


def test_the_replay_names_what_failed() -> None:
    report = Report(seed=1, failed_seed=9, failed_stream=4, durable=True)
    assert report.replay == "roost fuzz frames --seed 9 --count 1 --stream 4 --durable"
