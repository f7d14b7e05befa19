"""The control plane: watches pools, decides, and acts through the Kubernetes API."""
