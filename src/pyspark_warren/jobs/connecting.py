"""How a job finds its broker, its queues and its session: options that several jobs share.

Each job's options are a frozen dataclass. Its fields are annotated as `typer` wants them, so that
the same list makes the function's argument and the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

Url = Annotated[
    str,
    typer.Option(
        metavar="URLS",
        envvar="WARREN_URL",
        help="Addresses of the broker, separated by commas: http://a:15672 to read, amqp://a to "
        "publish. The next one is tried when one does not answer.",
    ),
]
User = Annotated[
    str | None, typer.Option(envvar="WARREN_USER", help="Unless in URLS.", show_default="guest")
]
Password = Annotated[
    str | None,
    typer.Option(envvar="WARREN_PASSWORD", help="Unless in URLS.", show_default="guest"),
]
Vhost = Annotated[str | None, typer.Option(help="Virtual host.", show_default="/")]
FailoverTimeout = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="SECONDS",
        help="For how long to try when none of them answers.",
        show_default="120",
    ),
]


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    """Where the broker is, and who asks."""

    url: Url
    user: User = None
    password: Password = None
    vhost: Vhost = None
    failover_timeout: FailoverTimeout = None

    def check(self) -> None:
        """Whether the options can be meant, as far as that can be told without Spark.

        Raises
        ------
        InvalidOption
            If not.
        """

    def connection(self) -> dict[str, str]:
        """As options of the source and of the sink."""
        given = {
            "url": self.url, "user": self.user, "password": self.password, "vhost": self.vhost,
            "failoverTimeout": self.failover_timeout,
        }  # fmt: skip
        return {name: str(value) for name, value in given.items() if value is not None}
