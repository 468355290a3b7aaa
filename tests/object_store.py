"""A real S3-compatible object store for tests: SeaweedFS on free ports, ended by its own id.

A Delta table on S3 needs a store that takes a name once (`If-None-Match: *`), also when two clients
ask at the same moment. SeaweedFS does; moto looks first and writes then, without a lock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from broker_process import free_port

HOST: Final = "127.0.0.1"
BUCKET: Final = "lakes"
ACCESS_KEY: Final = "warren-tests"
SECRET_KEY: Final = "secret-of-the-tests"
READY_S_MAX: Final = 120.0
POLL_S: Final = 0.2
VOLUME_MB: Final = 1_024
VOLUMES_MAX: Final = 20
# Each has a port for HTTP and one for gRPC.
SERVERS: Final = ("master", "volume", "filer", "s3")


class ObjectStore:
    """One process; its data is under `directory`, whose path has to be short (it has sockets)."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = {name: (free_port(), free_port()) for name in SERVERS}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self._ports['s3'][0]}"

    @property
    def environment(self) -> dict[str, str]:
        """What clients find the store by: the only place that has the credentials."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    def url(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"

    def start(self) -> None:
        """Start the store, and make a bucket."""
        with (self._directory / "store.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        self._make_bucket()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _command(self) -> list[str]:
        identities = self._directory / "identities.json"
        identities.write_text(json.dumps(_identities()))
        options: dict[str, Any] = {
            "dir": self._directory,
            "ip": HOST,
            "ip.bind": HOST,
            "master.telemetry": "false",  # it would tell its makers
            "master.volumeSizeLimitMB": VOLUME_MB,
            "volume.max": VOLUMES_MAX,
            "filer.localSocket": self._directory / "filer.sock",
            "s3.localSocket": self._directory / "s3.sock",
            "s3.config": identities,
            "s3.iam": "false",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
        }
        for name, (port, grpc_port) in self._ports.items():
            options |= {f"{name}.port": port, f"{name}.port.grpc": grpc_port}
        program = str(Path(sys.executable).with_name("weed"))
        return [program, "server", "-filer", "-s3", *(f"-{k}={v}" for k, v in options.items())]

    def _make_bucket(self) -> None:
        """A bucket can be made as soon as all servers know each other."""
        deadline = time.monotonic() + READY_S_MAX
        store = fs.S3FileSystem(
            access_key=ACCESS_KEY, secret_key=SECRET_KEY, region="us-east-1", scheme="http",
            endpoint_override=self.endpoint.removeprefix("http://"), allow_bucket_creation=True,
        )  # fmt: skip
        while True:
            try:
                store.create_dir(BUCKET)
                # Volumes come later than the bucket: the first write says that they are there.
                with store.open_output_stream(f"{BUCKET}/ready") as stream:
                    stream.write(b"yes")
                return
            except OSError as error:
                self._check(error, deadline)
            time.sleep(POLL_S)

    def _check(self, error: OSError, deadline: float) -> None:
        log = (self._directory / "store.log").read_text(errors="replace")[-2_000:]
        assert self._process is not None, "it was started"
        assert self._process.poll() is None, f"the object store ended:\n{log}"
        assert time.monotonic() < deadline, f"not ready in {READY_S_MAX:g} s: {error}\n{log}"


def _identities() -> dict[str, Any]:
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    return {"identities": [{"name": "tests", "credentials": credentials, "actions": actions}]}


def use_store(store: ObjectStore) -> None:
    """Let this process, and those that it starts, find the store."""
    os.environ.update(store.environment)
