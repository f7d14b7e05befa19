"""Properties are about results; how long an example takes says nothing on a shared machine."""

from hypothesis import HealthCheck, settings

settings.register_profile("api", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("api")
