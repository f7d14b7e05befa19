"""The one thing that pyproject.toml cannot say: the C kernel is optional.

Without a compiler the wheel still installs, and hawk_agent.layouts runs its numpy path.
"""

from setuptools import setup

setup()
