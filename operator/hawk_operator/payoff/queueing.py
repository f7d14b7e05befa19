"""How long a request waits for one of several equal servers.

The Allen-Cunneen approximation with Sakasegawa's exponent: exact for one Poisson server (M/M/1, M/D/1),
close for several, and it takes burstiness (index of dispersion of arrivals) as an input.
The tail above the mean is exponential, which heavy traffic makes true.
"""

from __future__ import annotations

from math import log, sqrt

from . import checks

__all__ = ["mean_wait", "utilisation", "wait_quantile"]


def utilisation(rate: float, service_seconds: float, servers: float) -> float:
    """Return offered load over capacity; 1 or more can't be served."""
    return rate * service_seconds / checks.positive("servers", servers)


def _wait_probability(load: float, servers: float) -> float:
    return float(load ** (sqrt(2 * (servers + 1)) - 1))


def mean_wait(
    rate: float,
    service_seconds: float,
    servers: float,
    *,
    dispersion: float = 1.0,
    service_variation: float = 0.0,
) -> float:
    """Return the mean wait in seconds, infinite at a load of 1 or more.

    `dispersion` is the variance over the mean of counts (1 for Poisson);
    `service_variation` the squared coefficient of variation of service times (0 when all are equal).
    """
    load = utilisation(rate, service_seconds, servers)
    if load >= 1:
        return float("inf")
    variability = (checks.at_least("dispersion", dispersion) + service_variation) / 2
    return variability * service_seconds * _wait_probability(load, servers) / (servers * (1 - load))


def wait_quantile(
    percentile: float,
    rate: float,
    service_seconds: float,
    servers: float,
    *,
    dispersion: float = 1.0,
    service_variation: float = 0.0,
) -> float:
    """Return the wait in seconds that `percentile` (0 to 100) of requests stay below."""
    if not 0 < percentile < 100:
        raise checks.InputError("percentile", f"{percentile:g} is not between 0 and 100", "give e.g. 95")
    mean = mean_wait(
        rate, service_seconds, servers, dispersion=dispersion, service_variation=service_variation
    )
    load = utilisation(rate, service_seconds, servers)
    if load == 0 or mean in (0.0, float("inf")):
        return mean
    waits = _wait_probability(load, servers)
    tail = 1 - percentile / 100
    return 0.0 if waits <= tail else mean / waits * log(waits / tail)
