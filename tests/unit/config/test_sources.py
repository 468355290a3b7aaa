"""Which files a node reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.config.sources import config_files


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name in ("rabbitmq.conf", "rabbitmq.config", "other.config"):
        (tmp_path / name).touch()
    return tmp_path


def names(files: list[Path]) -> list[str]:
    return [path.name for path in files]


def test_without_any_there_is_nothing_to_read() -> None:
    assert config_files(None, {"RABBITMQ_CONFIG_FILE": ""}) == []


def test_advanced_config_beside_the_main_file_is_read_after_it(here: Path) -> None:
    assert names(config_files(here / "rabbitmq.conf", {})) == ["rabbitmq.conf"]
    (here / "advanced.config").touch()
    assert names(config_files(here / "rabbitmq.conf", {})) == ["rabbitmq.conf", "advanced.config"]


def test_a_variable_names_advanced_config_elsewhere(here: Path) -> None:
    (here / "advanced.config").touch()
    for name in ("other.config", "other"):
        environment = {"RABBITMQ_ADVANCED_CONFIG_FILE": str(here / name)}
        found = config_files(here / "rabbitmq.conf", environment)
        assert names(found) == ["rabbitmq.conf", "other.config"]
        assert names(config_files(None, environment)) == ["other.config"]


def test_a_main_file_of_erlang_terms_is_read_alone(here: Path) -> None:
    (here / "advanced.config").touch()
    environment = {"RABBITMQ_ADVANCED_CONFIG_FILE": str(here / "other.config")}
    assert names(config_files(here / "rabbitmq.config", environment)) == ["rabbitmq.config"]


def test_a_variable_names_the_main_file_if_the_command_line_does_not(here: Path) -> None:
    environment = {"RABBITMQ_CONFIG_FILE": str(here / "rabbitmq")}
    assert names(config_files(None, environment)) == ["rabbitmq.conf"]
    assert names(config_files(here / "other.config", environment)) == ["other.config"]
    (here / "rabbitmq.conf").unlink()
    assert names(config_files(None, environment)) == ["rabbitmq.config"]


def test_a_named_file_that_is_missing_is_not_passed_over(tmp_path: Path) -> None:
    environment = {
        "RABBITMQ_CONFIG_FILE": str(tmp_path / "none"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(tmp_path / "gone"),
    }
    assert names(config_files(None, environment)) == ["none.conf", "gone.config"]
