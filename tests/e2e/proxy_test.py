#!/usr/bin/env python3
"""Behind nginx as it is by default: a stream arrives as it is made, outlives silences longer than the proxy's
patience, and is called off when the client of the proxy leaves.

    proxy_test.py --binary build/release/bin/ashlar --maker build/release/bin/make_tiny_model
                  --scripted build/release/bin/ashlar_scripted_server
"""

import argparse
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import ashlar_cli
from ashlar_server import LIMIT_S, Server, request_bytes, tiny_model

ARGS = None  # set by main()

# Shorter than the scripted engine's pause between two tokens, longer than ten heartbeats.
PATIENCE_S = 1
PAUSE_US = 1_500_000
HEARTBEAT_MS = 100

CONFIGURATION = """
{user}
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr warn;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{upstream};
      proxy_read_timeout {patience}s;
    }}
  }}
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@contextlib.contextmanager
def nginx(upstream):
    """The port of a proxy in front of `upstream`, with all it writes in a folder of its own."""
    unpacked = ashlar_cli.REPOSITORY / "build/deps/nginx/usr/sbin"  # by scripts/install.sh
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:{unpacked}")
    if program is None:
        raise RuntimeError("nginx is not installed: scripts/install.sh test")
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        Path(folder, "nginx.conf").write_text(CONFIGURATION.format(
            user="user root;" if os.geteuid() == 0 else "", folder=folder, port=port, upstream=upstream,
            patience=PATIENCE_S))
        command = [program, "-p", folder, "-c", f"{folder}/nginx.conf", "-e", "stderr"]
        with subprocess.Popen(command) as process:
            try:
                end = time.monotonic() + LIMIT_S
                while process.poll() is None and time.monotonic() < end:
                    with contextlib.suppress(ConnectionRefusedError):
                        socket.create_connection(("127.0.0.1", port)).close()
                        break
                yield port
            finally:
                process.terminate()


class ProxyTest(unittest.TestCase):
    def test_a_stream_arrives_as_it_is_made_and_outlives_silence(self):
        with Server(ARGS.scripted, "--pause-us", PAUSE_US, "--heartbeat-ms", HEARTBEAT_MS) as server, \
                nginx(server.port) as port:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
            body = {"prompt": "x", "max_tokens": 3, "temperature": 0, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            arrived = [(time.monotonic(), line) for line in response if line.strip()]
            data = [(at, line) for at, line in arrived if line.startswith(b"data: ")]
            self.assertEqual(data[-1][1], b"data: [DONE]\n")
            self.assertEqual(len(data), 5)  # three tokens, the finish, [DONE]
            self.assertIn(b":\n", [line for _, line in arrived])
            # A proxy that keeps what it gets would hand out all at once, at the end.
            self.assertGreater(data[-1][0] - data[0][0], PAUSE_US / 1e6)
            connection.close()

    def test_whole_answers_and_errors_pass(self):
        with tiny_model(ARGS.maker, 256) as model, \
                Server(ARGS.binary, "serve", "--model", model, "--port", 0) as server, nginx(server.port) as port:
            for body, status in (({"prompt": [1], "max_tokens": 4}, 200), ({"prompt": [1], "n": 0}, 400)):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
                connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                self.assertEqual(response.status, status)
                self.assertIn("choices" if status == 200 else "error", json.load(response))
                connection.close()

    def test_leaving_the_proxy_calls_the_work_off(self):
        with tiny_model(ARGS.maker, 16384) as model, \
                Server(ARGS.binary, "serve", "--model", model, "--port", 0) as server, nginx(server.port) as port:
            for stream in (True, False):
                client = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
                client.sendall(request_bytes("/v1/completions", {
                    "prompt": [1, 2], "max_tokens": 16000, "ignore_eos": True, "stream": stream}))
                if stream:
                    while b"data: " not in client.recv(65536):
                        pass
                else:  # nothing comes before all of it: the next answer shows that it has begun
                    self.assertEqual(server.ask("POST", "/v1/completions", {"prompt": [1], "max_tokens": 1})[0], 200)
                client.close()
                end = time.monotonic() + LIMIT_S
                while server.text().count("client_left=true") < 2 - stream and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertEqual(server.text().count("client_left=true"), 2 - stream, server.text())
            self.assertEqual(server.text().count("finish=abort"), 2)


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ashlar_cli.DEFAULT_BINARY), help="the ashlar program")
    parser.add_argument("--maker", required=True, help="make_tiny_model")
    parser.add_argument("--scripted", required=True, help="ashlar_scripted_server")
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
