"""Transfer plans: what a nest costs on each path, and which path to take.

A nest can be carried out in several ways: copied by a processor, gathered or scattered by a network
card, read through strided memory keys, or tiled on one side and sent whole. `counts` says what each
makes a device do, `Costs` what that takes, and `choose` compares. Nothing here touches a device.
"""

from hawk_agent.plans.costs import Costs, calibrate_costs
from hawk_agent.plans.counts import RequestLimits, Transfers, gather_writes, scatter_reads
from hawk_agent.plans.keeping import Keeping, keeping
from hawk_agent.plans.keying import key_plans
from hawk_agent.plans.keys import KeyPlan
from hawk_agent.plans.strategies import Strategy, applicable_strategies, choose_strategy

__all__ = [
    "Costs",
    "Keeping",
    "KeyPlan",
    "RequestLimits",
    "Strategy",
    "Transfers",
    "applicable_strategies",
    "calibrate_costs",
    "choose_strategy",
    "gather_writes",
    "keeping",
    "key_plans",
    "scatter_reads",
]
