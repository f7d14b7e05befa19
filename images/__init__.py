"""The images of operator and agents.

Each has a folder with its Containerfile and the list of Debian's packages that it needs; the wheels are those
of requirements/operator.txt and requirements/agent.txt. `python -m images` builds them with the container
engine that runs here (engine); without one it makes the same out of Debian's packages and wheels (content,
layers) and writes OCI archives (archive), as `podman load`, `docker load` and `ctr images import` read them.
"""
