"""Charges of regular expressions: each test begins without those of other tests."""

from __future__ import annotations

import pytest

from warren.model import regular_expressions


def forget_charges(monkeypatch: pytest.MonkeyPatch) -> None:
    for account in (regular_expressions._stored, regular_expressions._sent):
        for charges in ("_excess", "_long_matches"):
            monkeypatch.setattr(account, charges, regular_expressions._Charges())
    monkeypatch.setattr(regular_expressions, "_of_large_patterns", regular_expressions._Charges())
