"""Faults on purpose: models, worlds and endpoints that fail at known rates, the same way every time."""

from certigraph.adapters.faults.model import FaultyModel
from certigraph.adapters.faults.rates import Faults
from certigraph.adapters.faults.wire import faulty_endpoint
from certigraph.adapters.faults.world import FaultyBenchmark, FaultyEnvironment

__all__ = ["Faults", "FaultyBenchmark", "FaultyEnvironment", "FaultyModel", "faulty_endpoint"]
