"""The main job, start to end, on real parts: `make demo`.

stage brings the machinery up, steps drive it and judge it, report shows it.
The two model processes are workers; llama is the model that both run, scale how large; exchange is one
request through both. tests/rdma/demo runs the same processes over RDMA, without the control plane.
"""
