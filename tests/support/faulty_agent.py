"""`python -m tests.support.faulty_agent FAULT OPTIONS…`: the agent, with a fault in what it receives."""

import sys

from hawk_agent.main import main
from tests.support.faults import faulty

if __name__ == "__main__":
    main(sys.argv[2:], registry=faulty(sys.argv[1]))
