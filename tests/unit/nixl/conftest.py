from tests.unit.agent.conftest import house

__all__ = ["house"]
