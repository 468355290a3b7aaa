"""Directory server of a test: a real slapd with a few people and groups, on a free port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

from broker_process import free_port
from certificates import Authority

READY_WITHIN_S: Final = 60.0
SUFFIX: Final = "dc=example,dc=org"
_PATH: Final = f"{os.environ['PATH']}:/usr/sbin"

_CONFIG: Final = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {directory}/slapd.pid
TLSCACertificateFile {ca}
TLSCertificateFile {cert}
TLSCertificateKeyFile {key}
database mdb
maxsize 10485760
suffix "dc=example,dc=org"
rootdn "cn=admin,dc=example,dc=org"
rootpw adminsecret
directory {directory}/db
access to attrs=userPassword by anonymous auth by * none
access to * by users read by anonymous read
"""

_ENTRIES: Final = """
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: ou=People,dc=example,dc=org
objectClass: organizationalUnit
ou: People

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: cn=ann,ou=People,dc=example,dc=org
objectClass: inetOrgPerson
cn: ann
sn: Apple
uid: a.apple
l: /
userPassword: apple

dn: cn=bob,ou=People,dc=example,dc=org
objectClass: inetOrgPerson
cn: bob
sn: Pear
uid: b.pear
userPassword: pear

dn: cn=admins,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: admins
member: cn=ann,ou=People,dc=example,dc=org

dn: cn=staff,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: staff
member: cn=admins,ou=groups,dc=example,dc=org
member: cn=bob,ou=People,dc=example,dc=org
"""


class DirectoryServer:
    """slapd, with ldap (and StartTLS) on one port and ldaps on another."""

    def __init__(self, directory: Path) -> None:
        program = shutil.which("slapd", path=_PATH)
        if program is None:
            pytest.fail("no slapd found: run scripts/setup, or install it (on Debian: slapd)")
        self._program = program
        self.authority = Authority(directory / "certificates")
        issued = self.authority.issue("directory")
        self._config = directory / "slapd.conf"
        (directory / "db").mkdir()
        self._config.write_text(
            _CONFIG.format(
                directory=directory,
                ca=self.authority.cacertfile,
                cert=issued.certfile,
                key=issued.keyfile,
            )
        )
        entries = directory / "entries.ldif"
        entries.write_text(_ENTRIES)
        add = [program, "-T", "add", "-f", str(self._config), "-l", str(entries)]
        subprocess.run(add, check=True, capture_output=True, timeout=READY_WITHIN_S)
        self.port, self.ldaps_port = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        urls = f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.ldaps_port}"
        command = [self._program, "-d", "0", "-h", urls, "-f", str(self._config)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, "slapd ended at once"
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("slapd did not get ready")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(READY_WITHIN_S)
            self._process = None

    @property
    def settings(self) -> str:
        return (
            "auth_backends.1 = ldap\nauth_backends.2 = internal\n"
            f"auth_ldap.servers.1 = 127.0.0.1\nauth_ldap.port = {self.port}\n"
            "auth_ldap.timeout = 20000\n"
        )
