"""Properties here are never timed: the machine may be busy with something else."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
