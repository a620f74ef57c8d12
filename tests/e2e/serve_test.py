#!/usr/bin/env python3
"""`ashlar serve` as it is deployed: keys, TLS, limits, hostile requests, clients that close their half, the end.

    serve_test.py --binary build/release/bin/ashlar --maker build/release/bin/make_tiny_model
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ashlar_cli
from ashlar_server import Server, read_all, request_bytes, tiny_model

ARGS = None  # set by main()

CONTEXT = 8192
OWNER_KEY = "owner-0123456789abcdef"
ACME_KEY = "acme-0123456789abcdef"
LONG = {"prompt": [1, 2, 3], "max_tokens": 8000, "ignore_eos": True, "stream": True}
SHORT = {"prompt": [1, 2, 3], "max_tokens": 4}


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as stack:
            cls.model = stack.enter_context(tiny_model(ARGS.maker, CONTEXT))
            cls.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cls.addClassCleanup(stack.pop_all().close)

    def command(self, *flags):
        return [ARGS.binary, "serve", "--model", str(self.model), "--port", "0", "--threads", "1", *map(str, flags)]

    def serve(self, *flags, **options):
        return Server(*self.command(*flags), **options)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def assert_error(self, answer, status, **fields):
        self.assertEqual(answer[0], status, answer[2])
        error = answer[2]["error"]
        self.assertTrue(error["message"])
        for name, value in fields.items():
            self.assertEqual(error[name], value, error)

    # keys and TLS

    def test_keys_and_tls_guard_a_port(self):
        certificate, key = self.folder / "c.pem", self.folder / "k.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", key, "-out", certificate, "-days", "1", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        keys = self.file("keys", f"# who may ask\n{OWNER_KEY}\nacme:{ACME_KEY}\n")
        with self.serve("--tls-cert", certificate, "--tls-key", key, "--api-key-file", keys,
                        trusted_certificate=certificate) as server:
            acme = {"Authorization": f"Bearer {ACME_KEY}"}
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            refused = server.ask("POST", "/v1/completions", SHORT)
            self.assert_error(refused, 401, code="invalid_api_key")
            self.assertIn("Bearer", refused[1]["WWW-Authenticate"])
            self.assert_error(server.ask("GET", "/v1/models", headers={"Authorization": "Bearer wrong"}), 401)
            self.assertEqual(server.ask("POST", "/v1/completions", SHORT, acme)[0], 200)
            status, _, events = server.ask("POST", "/v1/completions", {**SHORT, "stream": True}, acme)
            self.assertEqual((status, events[-14:]), (200, b"data: [DONE]\n\n"))
            with server.socket() as plain:
                plain.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
                answer = read_all(plain)
                self.assertIn(b"HTTP/1.1 400", answer)
                self.assertIn(b"https://", answer)
            # A body is not read for who may not ask.
            with server.connect() as connection:
                connection.putrequest("POST", "/v1/completions")
                connection.putheader("Content-Length", str(10 << 20))
                connection.endheaders()
                self.assertEqual(connection.getresponse().status, 401)
        for said in (server.text(), json.dumps(refused[2])):
            self.assertNotIn(ACME_KEY, said)

    def test_quotas_follow_the_key(self):
        keys = self.file("quotas", json.dumps({"tenants": [
            {"name": "acme", "keys": [ACME_KEY], "tokens_per_minute": 5}, {"name": "other", "keys": [OWNER_KEY]}]}))
        with self.serve("--api-key-file", keys) as server:
            acme, other = ({"Authorization": f"Bearer {key}"} for key in (ACME_KEY, OWNER_KEY))
            self.assertEqual(server.ask("POST", "/v1/completions", SHORT, acme)[0], 200)
            refused = server.ask("POST", "/v1/completions", SHORT, acme)
            self.assert_error(refused, 429, code="rate_limit_exceeded", type="rate_limit_error")
            self.assertGreater(int(refused[1]["Retry-After"]), 10)  # 3 of 5 a minute, or more
            self.assertEqual(server.ask("POST", "/v1/completions", SHORT, other)[0], 200)

    def test_pages_of_other_origins(self):
        with self.serve("--cors-origin", "https://chat.example") as server:
            page = {"Origin": "https://chat.example"}
            answer = server.ask("POST", "/v1/completions", SHORT, page)
            self.assertEqual((answer[0], answer[1]["Access-Control-Allow-Origin"]), (200, "https://chat.example"))
            preflight = server.ask("OPTIONS", "/v1/completions", None, {
                **page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"})
            self.assertEqual(preflight[0], 204)
            self.assertIn("POST", preflight[1]["Access-Control-Allow-Methods"])
            self.assertEqual(preflight[1]["Access-Control-Allow-Headers"], "authorization")
            evil = server.ask("POST", "/v1/completions", SHORT, {"Origin": "https://evil.example"})
            self.assert_error(evil, 403, code="origin_not_allowed")
            self.assertIsNone(evil[1]["Access-Control-Allow-Origin"])

    def test_names_that_lead_here(self):
        keys = self.file("names", OWNER_KEY)
        for flags, is_open in [((), False), (("--host", "localhost"), False), (("--allowed-host", "box"), False),
                               (("--allowed-host", "*"), True), (("--host", "0.0.0.0"), True),
                               (("--api-key-file", keys), True)]:
            with self.subTest(flags=flags), self.serve(*flags) as server:
                self.assertEqual(server.ask("GET", "/health", headers={"Host": "localhost:80"})[0], 200)
                self.assertEqual(server.ask("GET", "/health", headers={"Host": "box:80"})[0],
                                 200 if is_open or "box" in flags else 403)
                strange = server.ask("GET", "/health", headers={"Host": "evil.example"})
                if is_open:
                    self.assertEqual(strange[0], 200)
                else:
                    self.assert_error(strange, 403, code="host_not_allowed")

    # limits

    def test_limits_are_answered(self):
        with self.serve("--max-body", "10KiB", "--max-header", "1KiB", "--max-prompt-tokens", "10",
                        "--max-answer", "1KiB") as server:
            self.assert_error(server.ask("POST", "/v1/completions", "x" * 20_000), 413)
            self.assert_error(server.ask("GET", "/health", headers={"X-Long": "x" * 2000}), 431)
            self.assert_error(server.ask("POST", "/v1/completions", {**SHORT, "prompt": [1] * 11}), 400,
                              param="prompt", code="context_length_exceeded")
            self.assert_error(server.ask("POST", "/v1/completions", {**LONG, "stream": False}), 400,
                              code="answer_too_large")
            self.assertEqual(server.ask("POST", "/v1/completions", SHORT)[0], 200)

    def test_hostile_bodies_get_a_400_that_names_the_field(self):
        cases = [
            (b'{"prompt": ' + b"[" * 100_000, "prompt"),
            (b'{"prompt": "x", "n": 1e400}', "n"),
            (b'{"prompt": "x", "max_tokens": 123456789012345678901234567890}', "max_tokens"),
            (b'{"prompt": "x", "seed": 1.5}', "seed"),
            (b'{"prompt": "x", "temperature": {}}', "temperature"),
            (b'{"prompt": "x", "stop": [["x"]]}', "stop"),
            (b'{"prompt": "x", "n": 1, "n": 2}', "n"),
            (b'{"prompt": "\xff\xfe"}', "prompt"),
            (b'{"prompt": "\\ud800"}', "prompt"),
            (b'{"prompt": [1, -1]}', "prompt[1]"),
            (b'{"prompt": "x", "priority": "high"}', "priority"),
            (b'{"prompt": "x", "timeout": -1}', "timeout"),
            (b'{"prompt": "x", "user": ' + json.dumps("u" * 257).encode() + b"}", "user"),
            (b'{"prompt": "x", "response_format": {"type": "json_schema"}}', "response_format"),
            (b"[1]", None),
            (b"", None),
        ]
        with self.serve() as server:
            for body, param in cases:
                with self.subTest(body=body[:60]):
                    answer = server.ask("POST", "/v1/completions", body)
                    self.assert_error(answer, 400)
                    named = answer[2]["error"]["param"]
                    self.assertEqual(named.partition("[0]")[0] if named else named, param)
            self.assertEqual(server.ask("POST", "/v1/completions", SHORT)[0], 200)

    # clients that close their sending half

    def test_a_client_that_closed_its_half_is_answered(self):
        with self.serve() as server:
            for stream, end in ((False, b"}"), (True, b"0\r\n\r\n")):
                with self.subTest(stream=stream), server.socket() as client:
                    body = {**LONG, "max_tokens": 200, "stream": stream}
                    client.sendall(request_bytes("/v1/completions", body, "Connection: close\r\n"))
                    client.shutdown(socket.SHUT_WR)
                    answer = read_all(client)
                    self.assertIn(b"HTTP/1.1 200 OK", answer)
                    self.assertIn(b'"finish_reason":"length"', answer)
                    self.assertTrue(answer.endswith(end), answer[-100:])

    # the end

    def read_first_event(self, client):
        client.sendall(request_bytes("/v1/completions", LONG))
        data = b""
        while b"data: " not in data:
            data += client.recv(65536)
        return data

    def test_a_signal_drains(self):
        with self.serve("--drain-timeout", "60") as server, server.socket() as client:
            # An answer that outlasts what is asked below.
            data = self.read_first_event(client)
            server.process.send_signal(signal.SIGTERM)
            while server.ask("GET", "/health")[0] == 200:
                pass
            refused = server.ask("POST", "/v1/completions", SHORT)
            self.assert_error(refused, 503, code="service_unavailable")
            self.assertEqual(refused[1]["Retry-After"], "60")
            data += read_all(client)
            self.assertIn(b"data: [DONE]", data)
            self.assertEqual(server.wait(), 0)

    def test_a_second_signal_cuts(self):
        with self.serve("--drain-timeout", "3600") as server, server.socket() as client:
            self.read_first_event(client)
            server.process.send_signal(signal.SIGTERM)
            while server.ask("GET", "/health")[0] == 200:
                pass
            server.process.send_signal(signal.SIGTERM)
            data = read_all(client)
            self.assertFalse(data and b"[DONE]" in data)
            self.assertEqual(server.wait(), 0)
            self.assertIn("requests are cut", server.text())

    def test_time_that_is_up_cuts(self):
        with self.serve("--drain-timeout", "0.05") as server, server.socket() as client:
            self.read_first_event(client)
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.wait(), 0)

    # flags

    def test_flags_that_cannot_be_are_refused_by_name(self):
        short = self.file("short", "acme:short\n")
        cases = [
            (("--tls-cert", "x.pem"), "--tls-key"),
            (("--tls-cert", "/no/such.pem", "--tls-key", "/no/such.pem"), "/no/such.pem"),
            (("--api-key-file", "/no/such/keys"), "/no/such/keys"),
            (("--api-key-file", short), "line 1"),
            (("--cors-origin", "chat.example"), "chat.example"),
            (("--allowed-host", "http://chat.example"), "http://chat.example"),
            (("--max-body", "much"), "much"),
            (("--max-prompt-tokens", "0"), "--max-prompt-tokens"),
            (("--idle-timeout", "0"), "--idle-timeout"),
            (("--drain-timeout", "-1"), "--drain-timeout"),
            (("--drain-timeout", "nan"), "--drain-timeout"),
            (("--request-timeout", "nan"), "--request-timeout"),
            (("--context-overflow", "stream", "--context-sinks", CONTEXT // 2), "--context-window"),
        ]
        cli = ashlar_cli.Ashlar(ARGS.binary)
        for flags, named in cases:
            with self.subTest(flags=flags):
                outcome = cli.call(*self.command(*flags)[1:])
                self.assertIn(outcome.code, (1, 2))
                self.assertIn(named, outcome.stderr)
                self.assertNotIn("short", outcome.stderr.replace(str(short), ""))

    def test_open_doors_are_warned_of(self):
        with self.serve("--host", "0.0.0.0") as server:
            self.assertIn("without API keys", server.text())
        keys = self.file("open", OWNER_KEY)
        os.chmod(keys, 0o644)
        with self.serve("--host", "0.0.0.0", "--api-key-file", keys) as server:
            self.assertIn("without TLS", server.text())
            self.assertIn("chmod o-r", server.text())
        with self.serve() as server:
            self.assertNotIn("without", server.text())


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ashlar_cli.DEFAULT_BINARY), help="the ashlar program")
    parser.add_argument("--maker", required=True, help="make_tiny_model")
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
