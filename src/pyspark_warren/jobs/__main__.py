"""`python -m pyspark_warren.jobs NAME`: the jobs as commands, where there is no broker."""

from __future__ import annotations

import sys

_MISSING = (
    "the jobs as commands need two packages more: pip install 'pyspark-warren[command]' "
    "(as functions of a SparkSession they do not: from pyspark_warren.jobs import ingest)"
)


def main() -> None:
    try:
        from pyspark_warren.jobs.command import app
    except ModuleNotFoundError as error:
        if error.name not in {"rich", "typer"}:
            raise
        sys.exit(f"pyspark-warren: {_MISSING}")
    app()


if __name__ == "__main__":
    main()
