"""Options for connecting to a broker, which several jobs share.

Each job's options are a frozen dataclass. Its fields are annotated with `Parameter`, so the same
list makes the function's argument and the command line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pyspark_warren.endpoints import parse_endpoints
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.ports import check_ports

Url = Annotated[
    str,
    Parameter(
        metavar="URLS",
        envvar="WARREN_URL",
        help="Addresses of the broker, separated by commas: http://a:15672 to read, amqp://a to "
        "publish. The next one is tried when one does not answer.",
    ),
]
User = Annotated[
    str | None,
    Parameter(envvar="WARREN_USER", help="User name, unless it is in URLS.", show_default="guest"),
]
Password = Annotated[
    str | None,
    Parameter(
        envvar="WARREN_PASSWORD", help="Password, unless it is in URLS.", show_default="guest"
    ),
]
Vhost = Annotated[str | None, Parameter(help="Virtual host.", show_default="/")]
FailoverTimeout = Annotated[
    int | None,
    Parameter(
        min=1,
        metavar="SECONDS",
        help="How long to go on trying when none of the addresses answers.",
        show_default="120",
    ),
]
CaFile = Annotated[
    str | None,
    Parameter(metavar="FILE", help="File with the CA certificate for https:// and amqps://."),
]
CertFile = Annotated[
    str | None,
    Parameter(
        metavar="FILE",
        help="Client certificate to log in with, at this path on every machine that Spark uses.",
    ),
]
KeyFile = Annotated[
    str | None,
    Parameter(
        metavar="FILE", help="Private key of the client certificate, unless it is in the same file."
    ),
]
Token = Annotated[
    str | None,
    Parameter(envvar="WARREN_TOKEN", help="OAuth 2.0 access token, instead of a password."),
]
TokenFile = Annotated[
    str | None,
    Parameter(metavar="FILE", help="File with an access token, read anew for each connection."),
]


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    """Options of a connection: the broker's addresses, and who logs in."""

    url: Url = field(repr=False)
    """Not in the repr: there may be a password in it."""
    user: User = None
    password: Password = field(default=None, repr=False)
    vhost: Vhost = None
    failover_timeout: FailoverTimeout = None
    ca_file: CaFile = None
    cert_file: CertFile = None
    key_file: KeyFile = None
    token: Token = field(default=None, repr=False)
    token_file: TokenFile = None

    def check(self) -> None:
        """Check the options as far as that can be done without Spark.

        Raises
        ------
        InvalidOption
            If one of them, or two together, make no sense.
        """

    def check_ports(self) -> None:
        """Ask each address which protocol it speaks.

        Raises
        ------
        InvalidOption
            If one answers and does not speak its own. One that does not answer may do so later.
        """
        check_ports(parse_endpoints(self.url, self.user, self.password))

    def connection(self) -> dict[str, str]:
        """Return these as options of the source and of the sink."""
        given = {
            "url": self.url, "user": self.user, "password": self.password, "vhost": self.vhost,
            "failoverTimeout": self.failover_timeout, "caFile": self.ca_file,
            "certFile": self.cert_file, "keyFile": self.key_file, "token": self.token,
            "tokenFile": self.token_file,
        }  # fmt: skip
        return {name: str(value) for name, value in given.items() if value is not None}
