"""What all tests share: how hard the property tests try.

ROOST_HYPOTHESIS=thorough tries many examples; the default ("ci") few, so that a change is checked
in a minute. Examples are drawn anew each run; a failure prints the decorator that replays it.
"""

import os

from hypothesis import settings

settings.register_profile("ci", max_examples=60, deadline=None, print_blob=True, derandomize=False)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=5000)
settings.load_profile(os.environ.get("ROOST_HYPOTHESIS") or "ci")
