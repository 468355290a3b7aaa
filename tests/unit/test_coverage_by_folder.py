"""Coverage by folder: what is added up, and what is too little."""

from __future__ import annotations

import coverage_by_folder
from coverage_by_folder import Lines, Measured, below_floor, by_folder, main, runs_of, table


def test_lines_are_added_up_by_folder() -> None:
    files = [
        Measured("replication/gm/member.py", 10, [3]),
        Measured("replication/deep/er.py", 10, []),
        Measured("__init__.py", 1, []),
    ]
    folders = by_folder(files)
    assert folders == {"": Lines(1, 1), "replication": Lines(20, 19)}
    assert folders["replication"].percent == 95.0
    assert "19 of     20 lines   95.0 %  (floor 90 %)" in table(folders)


def test_a_folder_below_its_floor_is_named_and_others_have_none() -> None:
    folders = {"replication": Lines(100, 89), "cluster": Lines(100, 90), "cli": Lines(100, 1)}
    (problem,) = below_floor(folders)
    assert problem.startswith("replication: 89.0 %")
    assert Lines().percent == 100.0


def test_missing_lines_are_told_as_ranges() -> None:
    assert runs_of([3, 4, 5, 9, 11, 12]) == "3-5, 9, 11-12"
    assert runs_of([]) == ""


def test_without_a_measurement_it_says_what_to_run(monkeypatch, tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(coverage_by_folder, "MEASURED", tmp_path)
    assert main([]) == 1
    assert "run scripts/test first" in capsys.readouterr().err
