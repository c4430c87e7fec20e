"""`python -m roost.chunks` compiles all kernels of a broker, so that nobody has to wait for it later."""

from __future__ import annotations

from roost.chunks.rehearsing import rehearse

if __name__ == "__main__":
    rehearse()
