"""Tests that ask for `kernel` run twice: against the compiled kernel and against its twin."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import wire_frames


@pytest.fixture(params=["_codec", "_codec_py"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return wire_frames.kernel(request.param)


@pytest.fixture
def reader(kernel: ModuleType) -> Any:
    return kernel.FrameReader(wire_frames.FRAME_MAX, wire_frames.MESSAGE_SIZE_MAX)
