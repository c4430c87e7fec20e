"""How the bytes of a run (`roost.broker.runs`) are read: frames, one behind the other, as they went out."""

from __future__ import annotations

from roost.broker.messages import Frame
from roost.wire.codec import PREFIX_SIZE, decoder_for
from roost.wire.limits import NO_LIMITS


class AsSent:
    """What every run of a connection is read with."""

    def frames(self, data: bytes) -> list[Frame]:
        decode = decoder_for(NO_LIMITS).decode
        frames, start = [], 0
        while start < len(data):
            end = self.end_of(data, 1, start)
            frame = decode(data[start + PREFIX_SIZE : end])
            assert isinstance(frame, Frame)
            frames.append(frame)
            start = end
        return frames

    def end_of(self, data: bytes, count: int, start: int = 0) -> int:
        for _ in range(count):
            start += PREFIX_SIZE + int.from_bytes(data[start : start + PREFIX_SIZE], "big")
        return start


AS_SENT = AsSent()
