"""The one way to the Kubernetes API, for operator, agent and command line.

`client.connect` gives a `Client`, configured by the rules of `config`: plain dictionaries in and out, a
time-out on each call, and one tree of errors (`errors`). An event loop uses the same client through
`threads.AsyncClient`, because `kubernetes.aio` loads the whole client twice.

Underneath is the official client's `ApiClient`. Its models and its dynamic client aren't used, because plain
dictionaries take a fraction of the memory; nor are its loaders, because they never read a token file again,
and go on without credentials when a plugin fails.

Importing `client` takes most of a second; `errors`, `kinds`, `gate` and `config` are light.
"""
