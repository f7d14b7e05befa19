"""Properties here are never timed: the machine may be busy with something else.

The fast suite tries few examples of each, the run under sanitizers the usual hundred, `make fuzz` a thousand.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("few", deadline=None, max_examples=25)
settings.register_profile("usual", deadline=None)
settings.register_profile(
    "thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HAWK_TEST_PROFILE", "few"))
