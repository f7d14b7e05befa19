"""The demo's transfer and kill steps over RDMA: `make demo-rdma`.

The same two model processes and two agents as `make demo` has, without the control plane, which an emulated
guest is too slow for: the agents are told of each other, and their certificates are issued here.
"""
