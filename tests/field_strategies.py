"""Hypothesis strategies for field tables, for whoever must carry one unharmed."""

from __future__ import annotations

from hypothesis import strategies as st

from warren.model.fields import Field, Table

# Both letters of a 64-bit number are read alike, but only the small one is written.
_RANGES = {
    "b": (-(1 << 7), (1 << 7) - 1),
    "B": (0, (1 << 8) - 1),
    "s": (-(1 << 15), (1 << 15) - 1),
    "u": (0, (1 << 16) - 1),
    "I": (-(1 << 31), (1 << 31) - 1),
    "i": (0, (1 << 32) - 1),
    "l": (-(1 << 63), (1 << 63) - 1),
    "T": (0, (1 << 64) - 1),
}


def _integers() -> st.SearchStrategy[Field]:
    choices = [
        st.builds(Field, st.just(kind), st.integers(low, high))
        for kind, (low, high) in _RANGES.items()
    ]
    return st.one_of(choices)


def _floats() -> st.SearchStrategy[Field]:
    finite = {"allow_nan": False, "allow_infinity": False}
    return st.one_of(
        st.builds(Field, st.just("f"), st.floats(width=32, **finite)),
        st.builds(Field, st.just("d"), st.floats(**finite)),
    )


def _scalars() -> st.SearchStrategy[Field]:
    decimals = st.tuples(st.integers(0, 255), st.integers(0, (1 << 32) - 1))
    return st.one_of(
        _integers(),
        _floats(),
        st.builds(Field, st.just("t"), st.booleans()),
        st.builds(Field, st.sampled_from("Sx"), st.binary(max_size=20)),
        st.builds(Field, st.just("D"), decimals),
        st.just(Field("V", None)),
    )


def names() -> st.SearchStrategy[str]:
    """Any bytes a short string may have: names of table entries need not be UTF-8."""
    return st.binary(max_size=12).map(lambda raw: raw.decode(errors="surrogateescape"))


def fields() -> st.SearchStrategy[Field]:
    return st.recursive(
        _scalars(),
        lambda inner: st.one_of(
            st.builds(Field, st.just("A"), st.lists(inner, max_size=4).map(tuple)),
            st.builds(Field, st.just("F"), _tables_of(inner)),
        ),
        max_leaves=12,
    )


def _tables_of(inner: st.SearchStrategy[Field]) -> st.SearchStrategy[Table]:
    return st.lists(st.tuples(names(), inner), max_size=4).map(Table)


def tables() -> st.SearchStrategy[Table]:
    return _tables_of(fields())
