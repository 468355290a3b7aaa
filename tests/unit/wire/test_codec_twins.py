"""The kernel's two forms offer the same names, signatures and numbers: those of the stub."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from struct import pack
from typing import Any

import pytest

import warren.wire
from warren.wire.fault_kinds import FaultKind
from wire_frames import (
    FRAME_MAX,
    HEARTBEAT,
    MESSAGE_SIZE_MAX,
    METHOD,
    body,
    frame,
    header,
    only,
    publish,
)
from wire_frames import kernel as kernel_named

STUB = Path(warren.wire.__path__[0]) / "_codec.pyi"


def stub_classes() -> dict[str, ast.ClassDef]:
    tree = ast.parse(STUB.read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def stub_attributes(stub: ast.ClassDef) -> set[str]:
    return {
        node.target.id
        for node in stub.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def stub_methods(stub: ast.ClassDef) -> dict[str, list[str]]:
    """Parameters in order, those that may be left out with a question mark."""
    found = {}
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            given = [argument.arg for argument in node.args.args]
            optional = len(node.args.defaults)
            marks = [""] * (len(given) - optional) + ["?"] * optional
            found[node.name] = [a + mark for a, mark in zip(given, marks, strict=True)]
    return found


def methods_of(class_: type) -> dict[str, list[str]]:
    found = {}
    for name, function in inspect.getmembers(class_, inspect.isfunction):
        if name == "__init__" or not name.startswith("_"):
            parameters = inspect.signature(function).parameters.values()
            found[name] = [p.name + ("" if p.default is p.empty else "?") for p in parameters]
    return found


def test_the_twin_offers_what_the_stub_says_and_no_more() -> None:
    twin = kernel_named("_codec_py")
    assert set(twin.__all__) == set(stub_classes())
    for name, stub in stub_classes().items():
        class_ = getattr(twin, name)
        public = {slot for slot in class_.__slots__ if not slot.startswith("_")}
        assert public == stub_attributes(stub), name
        assert methods_of(class_) == stub_methods(stub), name


def test_the_compiled_kernel_offers_what_the_stub_says_and_no_more() -> None:
    compiled = kernel_named("_codec")
    for name, stub in stub_classes().items():
        offered = {n for n in vars(getattr(compiled, name)) if not n.startswith("_")}
        expected = stub_attributes(stub) | set(stub_methods(stub)) - {"__init__"}
        assert offered == expected, name


def test_no_class_of_the_twin_carries_a_dictionary() -> None:
    twin = kernel_named("_codec_py")
    for name in twin.__all__:
        class_: Any = getattr(twin, name)
        assert class_.__dictoffset__ == 0, name


PROVOCATIONS = {
    FaultKind.FRAME_END: frame(METHOD, 1, bytes(4), end=0),
    FaultKind.FRAME_TOO_LARGE: pack(">BHI", METHOD, 1, FRAME_MAX + 1),
    FaultKind.UNKNOWN_FRAME: frame(9, 1),
    FaultKind.STRAY_FRAME: frame(HEARTBEAT, 1),
    FaultKind.EXPECTED_METHOD: body(1, b"x"),
    FaultKind.EXPECTED_HEADER: publish() + body(1, b"x"),
    FaultKind.WRONG_CLASS: publish() + header(class_id=10),
    FaultKind.EXPECTED_BODY: publish() + header(body_size=1) + publish(),
    FaultKind.MALFORMED_PROPERTIES: publish() + header(properties=b""),
    FaultKind.MESSAGE_TOO_LARGE: publish() + header(body_size=MESSAGE_SIZE_MAX + 1),
}


@pytest.mark.parametrize("kind", FaultKind)
def test_a_kind_of_fault_has_one_number_everywhere(reader: Any, kind: FaultKind) -> None:
    assert only(reader.feed(PROVOCATIONS[kind])).kind == kind
    assert reader.has_stopped is (kind in {FaultKind.FRAME_END, FaultKind.FRAME_TOO_LARGE})
