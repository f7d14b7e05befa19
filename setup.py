"""The one thing that pyproject.toml cannot say: the C kernel is optional.

Without a compiler the wheel still installs, and hawk_agent.layouts runs its numpy path.
One build serves every supported Python: the kernel uses the limited API of 3.11.
"""

from setuptools import Extension, setup

_HERE = "agents/hawk_agent/layouts"

setup(
    ext_modules=[
        Extension(
            "hawk_agent.layouts._kernel",
            [f"{_HERE}/_kernel.c"],
            depends=[
                f"{_HERE}/{name}"
                for name in (
                    "_kernel.h",
                    "_kernel_path.h",
                    "_kernel_paths.h",
                    "_kernel_program.h",
                    "_kernel_run.h",
                )
            ],
            extra_compile_args=["-O3", "-std=gnu11", "-Wall", "-Wextra", "-fvisibility=hidden"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
