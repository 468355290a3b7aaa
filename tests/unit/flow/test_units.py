from __future__ import annotations

import pytest

from warren.flow.units import Absolute, Relative, amount, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        *((f"3{unit}", 3 * 1024) for unit in ("k", "K", "kib", "kiB", "KiB", "KIB")),
        *((f"3{unit}", 3 * 1024**2) for unit in ("m", "M", "mib", "MiB", "MIB")),
        *((f"3{unit}", 3 * 1024**3) for unit in ("g", "G", "gib", "GiB", "GIB")),
        *((f"3{unit}", 3 * 1000) for unit in ("kb", "kB", "KB", "Kb")),
        *((f"3{unit}", 3 * 1000**2) for unit in ("mb", "MB", "Mb")),
        *((f"3{unit}", 3 * 1000**3) for unit in ("gb", "GB", "Gb")),
    ],
)
def test_sizes_have_rabbitmqs_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5GB", "2 GB", "2TB", "2mB", "2B", "2GBs", "٣k"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected bytes as in 4096, 512MiB or 2GB"):
        parse_size(text)


def test_of_two_settings_the_relative_one_counts() -> None:
    default = Absolute(1)
    assert amount(0.5, 100, default) == Relative(0.5)
    assert amount(None, 100, default) == Absolute(100)
    assert amount(None, None, default) == default
    assert amount(0.0, 100, default) == Relative(0.0)
