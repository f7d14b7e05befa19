"""The cluster that the kubeconfig names, for commands that look at live objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import yaml

from hawk_cli.support.output import fail

if TYPE_CHECKING:
    from hawk_operator.kube.cluster_api import ClusterApi


def connect() -> ClusterApi:
    """A client by the usual rules. Ends the command with status 2 where the kubeconfig is no use."""
    # The Kubernetes client is slow to import, and an extra.
    from httpx2 import InvalidURL  # noqa: PLC0415
    from lightkube.core.exceptions import ConfigError  # noqa: PLC0415

    from hawk_operator.kube.cluster_api import ApiCallError, ClusterApi  # noqa: PLC0415
    from hawk_operator.kube.throttle import Gate  # noqa: PLC0415

    try:
        return ClusterApi.connect(Gate())
    except (ApiCallError, ConfigError) as error:
        _refuse(str(error).removeprefix("kubeconfig: "))
    except (InvalidURL, OSError, ValueError, yaml.YAMLError) as error:
        _refuse(" ".join(str(error).split()))
    except (AttributeError, KeyError, TypeError) as error:
        # The client takes the file's structure for granted.
        _refuse(f"it isn't built as a kubeconfig is ({type(error).__name__}: {error})")


def _refuse(problem: str) -> NoReturn:
    fail(f"kubeconfig: {problem}; set KUBECONFIG to one that kubectl can use")
