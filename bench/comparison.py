"""What the comparisons in this folder share."""

import contextlib
import re
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

START_TIMEOUT_S = 120

# By the name of what a llama.cpp stores: the --kv-codec of ours that is compared with it.
OUR_CODECS = {"f16": "f16", "q8_0": "k=q8,v=q8", "q4_0": "k=q4,v=q4"}


def flash_modes(cache, asked):
    """What to run of a llama.cpp: a quantised V goes with flash attention only, whatever was asked for."""
    return asked if cache == "f16" else ["on"]


class ComparisonFailed(Exception):
    pass


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server as a child process, with its log in a file."""

    def __init__(self, command, port, folder):
        self.url = f"http://127.0.0.1:{port}"
        self._command = list(map(str, command))
        self._log = Path(folder) / f"server-{port}.log"

    def __enter__(self):
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        try:
            self._await_health()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _await_health(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            time.sleep(0.05)
        raise ComparisonFailed(f"{' '.join(self._command)} did not start:\n{self.log()[-2000:]}")

    def __exit__(self, *unused):
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def log(self):
        return self._log.read_text(errors="replace")

    def peak_rss_mib(self):
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
