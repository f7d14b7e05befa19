"""RDMA verbs: devices, queue pairs, postings and completions on libibverbs, opened at run time.

The low part is a compiled extension (`_verbs`) with a thin layer of Python round it:

```python
infos = device.discover()                        # [] without RDMA; device.unavailable() says why
dev = device.open(infos[0])                      # context and protection domain
region = registration.register(dev, mapping, nbytes, registration.DESTINATION)
cq = completion.CompletionQueue(dev, entries)    # holds depth + receives of all its queue pairs
qp = queue_pair.QueuePair(dev, depth, max_sge, cq, receives=64)
qp.connect(peer_info, registration.Access.REMOTE_WRITE, queue_pair.Timeouts())   # qp.info goes to the peer
local = posting.Local(region.nbytes, region.local_keys, blocks)
remote = posting.Remote(nbytes, extents, blocks) # extents: registration.Extent(offset, nbytes, address, rkey)
work = posting.Posting(qp, nest, local, remote, direction="write", immediate=word)
dispatcher = completion.Dispatcher(cq, arrived=on_immediate, broken=on_failure); dispatcher.start()
await dispatcher.drive(work)                     # or completion.finish(work) without an event loop
qp.to_error(); await dispatcher.drained(qp); qp.reset(); qp.connect(...)          # fence, and again
window = windows.Window(dev); number = window.bind(qp, region, offset, nbytes, access)   # type-2 windows
await dispatcher.ended(qp, number); extent = window.extent                      # what the peer is told
await dispatcher.ended(qp, window.invalidate(qp)); window.close()
```

Everything that was made is closed in the opposite order; each `close` may be called again. Every error is a
`errors.VerbsError`, which is a TransportError, or its TransportTimeoutError.
"""
