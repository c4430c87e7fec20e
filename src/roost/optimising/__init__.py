"""What several optimisers share, whichever paper they are from; none of them is imported here.

| module | what it is |
| --- | --- |
| `bitvector` | which of many publications were delivered somewhere, as bits |
| `groups` | the clients of a broker that ask for the same |
| `room` | which brokers would be too busy with one more client |
| `goal` | what is to be made small, and by how much |
| `worth` | whether a move pays for itself |

All of it is pure.
"""
