"""Which data paths there are: transports by name, this package's own and those of other packages.

A package adds one with an entry point of the group `hawkpool.transports`, which names what makes it:

```toml
[project.entry-points."hawkpool.transports"]
spool = "spool:Spool"
```

An agent uses those that `--transports` allows, and only they are loaded.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final, TypeAlias

from hawk_agent.errors import BadRequestError, TransportError
from hawk_agent.transfer.transport import Transport, TransportContext

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Iterable, Mapping

GROUP: Final = "hawkpool.transports"

TransportFactory: TypeAlias = Callable[[TransportContext], Transport]

log = logging.getLogger(__name__)


class TransportRegistry:
    """The factory of each transport, by name; by default those that the installed packages declare."""

    def __init__(self, factories: Mapping[str, TransportFactory] | None = None) -> None:
        self._factories = _installed() if factories is None else dict(factories)

    def __getitem__(self, name: str) -> TransportFactory:
        """The factory of a transport. BadRequestError for a name that no package declares."""
        if name not in self._factories:
            known = ", ".join(sorted(self._factories)) or "none"
            raise BadRequestError(f"transport {name!r} is unknown; installed: {known}")
        return self._factories[name]

    async def open(
        self, names: Iterable[str], context: TransportContext, stack: contextlib.AsyncExitStack
    ) -> tuple[dict[str, Transport], dict[str, str]]:
        """Start the named transports, in their order; `stack` closes them.

        Returns:
            Those that serve, by name, and those that this host can't use, each with the reason.

        Raises:
            BadRequestError: a name is unknown, or declared wrongly.
            TransportError: none of them can be used.
        """
        serving: dict[str, Transport] = {}
        unused: dict[str, str] = {}
        for name in names:
            transport = self[name](context)
            if transport.name != name:
                raise BadRequestError(
                    f"transport {name!r} calls itself {transport.name!r}; its entry point needs that name"
                )
            try:
                await transport.start()
            except TransportError as error:
                unused[name] = str(error)
                log.warning("transport %s is not used: %s", name, error)
                continue
            stack.push_async_callback(transport.close)
            serving[name] = transport
        if not serving:
            raise TransportError(f"no data path: {'; '.join(unused.values())}")
        return serving, unused


def _installed() -> dict[str, TransportFactory]:
    found = entry_points(group=GROUP)
    twice = sorted(name for name, count in Counter(point.name for point in found).items() if count > 1)
    if twice:
        raise BadRequestError(
            f"transport {twice[0]!r} is declared by several installed packages; remove all but one"
        )
    return {point.name: _loading(point) for point in found}


def _loading(point: EntryPoint) -> TransportFactory:
    """Makes the transport of an entry point, which is imported when it is first needed."""

    def make(context: TransportContext) -> Transport:
        try:
            factory: TransportFactory = point.load()
        except (ImportError, AttributeError) as error:
            raise BadRequestError(
                f"transport {point.name!r} can't be loaded from {point.value} ({error}); reinstall it"
            ) from error
        return factory(context)

    return make
