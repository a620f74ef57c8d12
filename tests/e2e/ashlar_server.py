"""Runs `ashlar serve`, or another server of ours, as an operator would: flags in, a port and what it says out."""

import collections
import contextlib
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path

LIMIT_S = 120  # only what is broken waits so long


class Server:
    """A program that says "on HOST:PORT", "on http://HOST:PORT" or "on https://HOST:PORT" once it serves."""

    def __init__(self, *command, trusted_certificate=None):
        self._command = [*map(str, command)]
        self._tls = ssl.create_default_context(cafile=trusted_certificate) if trusted_certificate else None
        self.said = collections.deque(maxlen=10_000)  # lines; the latest ones

    def __enter__(self):
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r" on (?:https?://)?[\w.\[\]:]+:(\d+)", line):
                self.port = int(found[1])
                # What it says later must not fill the pipe.
                self._reader = threading.Thread(target=lambda: self.said.extend(self.process.stdout), daemon=True)
                self._reader.start()
                return self
        raise RuntimeError(f"{' '.join(self._command)} ended before it listened:\n{''.join(self.said)}")

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGINT)  # two different ones: neither is lost
        self.wait()

    def wait(self):
        """The exit code, once it has ended."""
        code = self.process.wait(timeout=LIMIT_S)
        self._reader.join(timeout=LIMIT_S)
        self.process.stdout.close()
        return code

    def text(self):
        return "".join(list(self.said))

    def connect(self):
        if self._tls:
            connection = http.client.HTTPSConnection("localhost", self.port, timeout=LIMIT_S, context=self._tls)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        return contextlib.closing(connection)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body); the body parsed where it is JSON."""
        with self.connect() as connection:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            is_json = response.getheader("Content-Type", "").startswith("application/json")
            return response.status, response.headers, json.loads(text) if is_json else text

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)

    def rss_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def descriptors(self):
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


def request_bytes(path, body, headers=""):
    text = json.dumps(body)
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(text)}\r\n\r\n{text}").encode()


def read_all(connection):
    """What comes until the other side ends; None for a reset."""
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionResetError:
        return None
    return data


@contextlib.contextmanager
def tiny_model(maker, context):
    """A random llama of a few kilobytes, trained to `context` tokens."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.gguf"
        subprocess.run([maker, "plain", path, str(context)], check=True)
        yield path
