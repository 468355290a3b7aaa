"""LDAP connections: blocking, for the threads of the backend, with a time limit for each step."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from ldap3 import BASE, LEVEL, NONE, SUBTREE, Connection, Server, Tls
from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import escape_rdn

from warren.auth.backends import BackendError
from warren.config.auth import ClientTls
from warren.config.auth import LdapBackend as LdapSettings
from warren.config.tls import VERIFY_NONE
from warren.model.errors import LoginRefused

ENTRIES_MAX: Final = 1_000
"""Most entries that one search may return."""
_SUCCESS: Final = 0
_NO_SUCH_OBJECT: Final = 32
_INVALID_CREDENTIALS: Final = 49
_SCOPES: Final = {"subtree": SUBTREE, "one": LEVEL}


class LdapReader:
    """A bound connection, with the questions that queries ask."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def exists(self, dn: str, attribute: str, value: str | None) -> bool:
        wanted = "*" if value is None else escape_filter_chars(value)
        return bool(self._search(dn, f"({attribute}={wanted})", BASE, ["objectClass"]))

    def attribute(self, dn: str, name: str) -> tuple[str, ...]:
        for entry in self._search(dn, "(objectClass=*)", BASE, [name]):
            for found, values in entry["raw_attributes"].items():
                if found.lower() == name.lower():
                    return tuple(value.decode(errors="replace") for value in values)
        return ()

    def groups_of(self, base: str, scope: str, attribute: str, dn: str) -> list[str]:
        wanted = f"({attribute}={escape_filter_chars(dn)})"
        return [entry["dn"] for entry in self._search(base, wanted, _SCOPES[scope], ["1.1"])]

    def dns_with(self, base: str, attribute: str, value: str) -> list[str]:
        wanted = f"({attribute}={escape_filter_chars(value)})"
        return [entry["dn"] for entry in self._search(base, wanted, SUBTREE, ["1.1"])]

    def escape(self, text: str) -> str:
        return str(escape_rdn(text))

    def _search(self, base: str, wanted: str, scope: str, attributes: list[str]) -> list[Any]:
        connection = self._connection
        try:
            connection.search(base, wanted, scope, attributes=attributes, size_limit=ENTRIES_MAX)
        except LDAPException as error:
            raise BackendError(f"LDAP search failed: {error}") from None
        result = connection.result
        if result["result"] == _NO_SUCH_OBJECT:
            return []
        if result["result"] != _SUCCESS:
            raise BackendError(f"LDAP search failed: {result['description']}")
        return [each for each in connection.response if each["type"] == "searchResEntry"]


class LdapServers:
    """Servers of a configuration, tried in order."""

    def __init__(self, settings: LdapSettings, tls: ClientTls) -> None:
        self._settings = settings
        self._timeout_s = -(-settings.timeout_ms // 1000)  # ldap3 takes whole seconds
        self._tls = _tls_of(tls) if settings.use_ssl or settings.use_starttls else None

    @contextmanager
    def bound(self, name: str = "", password: str = "") -> Iterator[LdapReader]:
        """Bind, anonymously without a name. Raises LoginRefused, BackendError."""
        connection = self._connected(name, password)
        try:
            yield LdapReader(connection)
        finally:
            with suppress(LDAPException, OSError):  # it is over either way
                connection.unbind()

    def _connected(self, name: str, password: str) -> Any:
        faults = []
        for host in self._settings.servers:
            try:
                connection = self._opened(host, name, password)
                connection.bind()
            except (LDAPException, OSError) as error:
                faults.append(f"{host}: {error}")
                continue
            result = connection.result
            if result["result"] == _INVALID_CREDENTIALS:
                connection.unbind()
                raise LoginRefused("invalid credentials")
            if result["result"] != _SUCCESS:
                connection.unbind()
                raise BackendError(f"LDAP bind failed: {result['description']}")
            return connection
        raise BackendError(f"cannot connect to an LDAP server: {'; '.join(faults)}")

    def _opened(self, host: str, name: str, password: str) -> Any:
        settings = self._settings
        server = Server(
            host,
            port=settings.port,
            use_ssl=settings.use_ssl,
            tls=self._tls,
            connect_timeout=self._timeout_s,
            get_info=NONE,
        )
        connection = Connection(
            server,
            user=name or None,
            password=password or None,
            receive_timeout=self._timeout_s,
            auto_referrals=False,
            check_names=False,
        )
        connection.open()
        if settings.use_starttls and not connection.start_tls():
            raise LDAPException("StartTLS was refused")
        return connection


def _tls_of(choice: ClientTls) -> Tls:
    verifies = choice.verify != VERIFY_NONE
    return Tls(
        local_private_key_file=choice.keyfile or None,
        local_certificate_file=choice.certfile or None,
        ca_certs_file=choice.cacertfile or None,
        validate=ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE,
        # ldap3 compares names if there is a list, and takes any name with "*".
        valid_names=["*"] if choice.hostname_verification == "none" else None,
    )
