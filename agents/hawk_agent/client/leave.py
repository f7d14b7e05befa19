"""`python -m hawk_agent.client.leave SECONDS`: wait until the node's agent sees this worker's memory unused.

It is what HawkPool has a worker's container do before it is stopped (preStop), so that a drained node, an
eviction and a rolling update take no transfer away. Exit status 1 where something still used it when the time
was over.
"""

from __future__ import annotations

import sys

from hawk_agent.client.engine import AgentClient
from hawk_agent.errors import AgentUnavailableError, HawkAgentError


def main(arguments: list[str]) -> int:
    """Wait; the exit status. Where no agent answers there is nothing to wait for."""
    seconds = float(arguments[0])
    try:
        with AgentClient(name="leaving") as client:
            client.await_idle(seconds)
    except AgentUnavailableError as error:
        print(error, file=sys.stderr)
    except HawkAgentError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
