"""The brokers of tests/durability, which this is the other half of: here they are hurt."""

from __future__ import annotations

from durability.conftest import (
    chance,
    faulty,
    make_broker,
    mortal,
    pytest_collection_modifyitems,
    pytest_configure,
)

__all__ = [
    "chance",
    "faulty",
    "make_broker",
    "mortal",
    "pytest_collection_modifyitems",
    "pytest_configure",
]
