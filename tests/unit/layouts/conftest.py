"""Properties here are never timed: the machine may be busy with something else.

HAWK_TEST_PROFILE=thorough tries many more examples, as the sanitizers' run does.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None)
settings.register_profile(
    "thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HAWK_TEST_PROFILE", "untimed"))
