"""Unreadable bytes: the exceptions with which msgspec refuses what it is to decode.

A text that is not UTF-8 is no DecodeError, nor is what is nested too deeply; both come from whoever
wrote the bytes, and have to be refused in the same way.
"""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
