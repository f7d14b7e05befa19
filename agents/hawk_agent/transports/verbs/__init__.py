"""RDMA verbs: devices, queue pairs, postings and completions on libibverbs, opened at run time.

The low part is a compiled extension (`_verbs`) with a thin layer of Python round it:

```python
infos = device.discover_devices()                # [] without RDMA; device.unavailable() says why
dev = device.open_device(infos[0])               # context and protection domain
region = registration.register_memory(dev, mapping, nbytes, registration.DESTINATION)
cq = completion.CompletionQueue(dev, entries)    # holds depth + receives of all its queue pairs
qp = queue_pair.QueuePair(dev, depth, max_sge, cq, receives=64)
qp.connect(peer_info, registration.AccessFlags.IBV_ACCESS_REMOTE_WRITE)          # qp.info goes to the peer
local = posting.LocalMemory(region.nbytes, region.local_ranges, blocks)
remote = posting.RemoteMemory(nbytes, ranges, blocks)   # ranges: registration.RemoteRange, as the peer told
work = posting.Posting(qp, nest, local, remote, direction="write", immediate=word)
dispatcher = completion.Dispatcher(cq, arrived=on_immediate, broken=on_failure); dispatcher.start()
await dispatcher.drive(work)                     # or completion.finish_posting(work) without an event loop
qp.to_error(); await dispatcher.drained(qp); qp.reset(); qp.connect(...)          # fence, and again
window = windows.MemoryWindow(dev); number = window.bind(qp, region, offset, nbytes)    # type-2 windows
await dispatcher.ended(qp, number); told = window.remote_range                  # what the peer is told
await dispatcher.ended(qp, window.invalidate(qp)); window.close()
```

Everything that was made is closed in the opposite order; each `close` may be called again. Every error is a
`errors.VerbsError`, which is a TransportError, or its TransportTimeoutError.
"""
