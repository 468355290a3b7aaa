"""`warrenctl`: asks a running node how it is.

rabbitmqctl's other verbs work through the management API, which this version does not have yet;
until then they are refused, with rabbitmqctl's exit code for a usage error, instead of pretending.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

EXIT_OK: Final = 0
EXIT_USAGE: Final = 64
EXIT_UNAVAILABLE: Final = 69
DEFAULT_URL: Final = "http://127.0.0.1:15672"
VERBS: Final = ("ping", "status")
READY_PATH: Final = "/api/health/checks/ready"
TIMEOUT_SECONDS: Final = 10.0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="warrenctl", description="Ask a Warren node how it is.")
    parser.add_argument(
        "--url",
        default=os.environ.get("WARREN_URL", DEFAULT_URL),
        help="the node's management address (or WARREN_URL; %(default)s)",
    )
    parser.add_argument("verb", metavar="VERB", help=f"one of: {', '.join(VERBS)}")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def check_ready(url: str) -> int:
    """Print and return how the node answers its readiness check."""
    address = url.rstrip("/") + READY_PATH
    try:
        with urlopen(address, timeout=TIMEOUT_SECONDS):
            print(f"Node at {url} is up: AMQP is open")
            return EXIT_OK
    except (URLError, OSError, ValueError) as error:
        print(f"Error: node at {url} is not ready: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE


def run(arguments: Sequence[str] | None = None) -> int:
    parser = build_parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else EXIT_OK
    if options.verb in VERBS and not options.arguments:
        return check_ready(options.url)
    print(
        f"Error: '{options.verb}' comes with the management API and is not available yet; "
        f"available: {', '.join(VERBS)}",
        file=sys.stderr,
    )
    return EXIT_USAGE


def main() -> None:
    sys.exit(run())
