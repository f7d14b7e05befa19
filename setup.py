"""The one thing that pyproject.toml cannot say: the C extensions are optional.

Without a compiler the wheel still installs: hawk_agent.layouts runs its numpy path, and the verbs transport
says that it isn't built. One build serves every supported Python: both use the limited API of 3.11. The verbs
need no headers and no library of RDMA here; the library is opened where it is, at run time.
"""

from pathlib import Path

from setuptools import Extension, setup

_LAYOUTS = "agents/hawk_agent/layouts"
_VERBS = "agents/hawk_agent/transports/verbs"


def _headers(*folders: str) -> list[str]:
    return sorted(str(path) for folder in folders for path in Path(folder).glob("*.h"))


def _extension(name: str, sources: list[str], depends: list[str], libraries: list[str]) -> Extension:
    return Extension(
        name,
        sources,
        depends=depends,
        libraries=libraries,
        extra_compile_args=["-O3", "-std=gnu11", "-Wall", "-Wextra", "-fvisibility=hidden"],
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        py_limited_api=True,
        optional=True,
    )


setup(
    ext_modules=[
        _extension("hawk_agent.layouts._kernel", [f"{_LAYOUTS}/_kernel.c"], _headers(_LAYOUTS), []),
        _extension(
            "hawk_agent.transports.verbs._verbs",
            [
                f"{_VERBS}/{name}.c"
                for name in ("_verbs", "_verbs_memory", "_verbs_completion", "_verbs_queue", "_verbs_cursor")
            ],
            _headers(_VERBS, _LAYOUTS),
            ["dl", "pthread"],
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
