"""The rabbitmqctl that the Java tests call: hands its words to the suite, which answers.

rabbitmqctl.py SOCKET -n NODE VERB ...
"""

from __future__ import annotations

import json
import socket
import sys


def main() -> int:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(sys.argv[1])
        line.sendall(json.dumps(sys.argv[2:]).encode() + b"\n")
        with line.makefile("rb") as answer:
            code, out, err = json.loads(answer.readline())
    sys.stdout.write(out)
    sys.stderr.write(err)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
