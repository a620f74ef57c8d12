#!/usr/bin/env python3
"""What `ashlar bench serve` promises, against a server over a scripted engine, and against hostile ones.

    bench_serve_test.py --binary build/release/bin/ashlar --server build/release/bin/ashlar_scripted_server
"""

import argparse
import html.parser
import json
import re
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import ashlar_cli

ARGS = None  # set by main()

LATENCY_FIELDS = ("mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms")


class Page(html.parser.HTMLParser):
    """Tags that were not closed, and what the page would load from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.open, self.outside, self.tags = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.outside += [value for name, value in attributes if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.open.append(f"/{tag}")


class BenchServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ashlar = ashlar_cli.Ashlar(ARGS.binary)
        cls.server = subprocess.Popen([ARGS.server, "--pause-us", "200"], stdout=subprocess.PIPE, text=True)
        cls.url = "http://" + re.search(r" on (\S+)", cls.server.stdout.readline())[1]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait()
        cls.server.stdout.close()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ashlar-load-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def bench(self, *flags, url=None):
        return self.ashlar.call("bench", "serve", "--url", url or self.url, *flags, timeout_s=60)

    def rows(self, *flags):
        outcome = self.bench("--json", *flags)
        self.assertEqual(outcome.code, 0, outcome.stderr)
        rows = [json.loads(line) for line in outcome.stdout.splitlines()]
        for row in rows:
            self.assertTrue(row["name"].startswith("serve/"))
            self.assertEqual(row["params"], rows[0]["params"])
        return {row["name"].removeprefix("serve/"): row for row in rows}

    def test_every_figure_is_a_json_object_on_a_line(self):
        rows = self.rows("--requests", 30, "--concurrency", 5, "--prompt-tokens", "10:90",
                         "--output-tokens", 8, "--target-ttft-ms", 1e6)
        summary = rows["summary"]
        self.assertEqual((summary["requests"], summary["completed"], summary["failed"]), (30, 30, 0))
        self.assertEqual(summary["completion_tokens"], 30 * 8)
        self.assertEqual(summary["good_requests"], 30)
        self.assertEqual(summary["most_running"], 5)
        self.assertGreater(summary["cached_tokens"], 0)
        self.assertEqual(summary["params"]["model"], "scripted")
        for name in ("ttft", "itl", "tpot", "e2e", "delay"):
            values = [rows[name][field] for field in LATENCY_FIELDS]
            self.assertEqual(values[1:], sorted(values[1:]), name)
            self.assertGreaterEqual(values[5], values[0], name)
        self.assertEqual(rows["ttft"]["count"], 30)

    def test_prompts_have_the_length_asked_for_whatever_a_token_is(self):
        # The scripted server's tokens are bytes, all but "the".
        summary = self.rows("--requests", 10, "--prefix-tokens", 300, "--prompt-tokens", 200,
                            "--output-tokens", 2)["summary"]
        self.assertLess(abs(summary["prompt_tokens"] / 10 - 500), 15)

    def test_turns_carry_the_conversation_so_far(self):
        one = self.rows("--requests", 4, "--prompt-tokens", 100, "--output-tokens", 20)["summary"]
        flags = ("--requests", 4, "--turns", 3, "--prompt-tokens", 100, "--turn-tokens", 50,
                 "--output-tokens", 20)
        for endpoint in ("completions", "chat"):
            three = self.rows("--endpoint", endpoint, *flags)["summary"]
            self.assertEqual(three["completed"], 12)
            # 100, then 100 + answer + 50, then that + answer + 50.
            self.assertGreater(three["prompt_tokens"], 3 * one["prompt_tokens"] + 4 * 150)

    def test_the_open_loop_sends_at_its_rate(self):
        summary = self.rows("--requests", 50, "--rate", 100, "--arrivals", "even",
                            "--output-tokens", 2)["summary"]
        self.assertEqual(summary["completed"], 50)
        self.assertGreater(summary["duration_s"], 0.48)

    def test_a_trace_is_replayed(self):
        trace = self.folder / "trace.jsonl"
        trace.write_text("".join(
            json.dumps({"timestamp": 10 * i, "input_length": 100 + i, "output_length": 3,
                        "hash_ids": [0, i + 1]}) + "\n" for i in range(20)))
        summary = self.rows("--trace", trace, "--trace-block-tokens", 64)["summary"]
        self.assertEqual(summary["completed"], 20)
        self.assertEqual(summary["completion_tokens"], 60)
        self.assertEqual(summary["params"]["pace"], "open")
        summary = self.rows("--trace", trace, "--trace-block-tokens", 64, "--requests", 5,
                            "--time-scale", 0, "--length-scale", 0.5)["summary"]
        self.assertEqual(summary["completed"], 5)
        self.assertEqual(summary["params"]["pace"], "closed")

    def test_a_fault_in_a_trace_is_shown_by_file_and_line(self):
        trace = self.folder / "bad.jsonl"
        trace.write_text('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}\n'
                         '{"timestamp": 0, "input_length": "x"}\n')
        outcome = self.bench("--trace", trace)
        self.assertEqual(outcome.code, 1)
        self.assertEqual(outcome.stdout, "")
        self.assertIn(f"{trace}:2: 'input_length' is \"x\"", outcome.stderr)

    def test_the_page_is_whole_and_alone(self):
        page_file = self.folder / "report.html"
        outcome = self.bench("--requests", 20, "--output-tokens", 10, "--html", page_file)
        self.assertEqual(outcome.code, 0, outcome.stderr)
        self.assertIn("20 completed", outcome.stdout)
        page = Page(page_file.read_text())
        self.assertEqual(page.open, [])
        self.assertEqual(page.outside, [])
        self.assertEqual(page.tags.count("svg"), 3)

    def test_wrong_flags_are_named_with_their_values(self):
        for flags in (("--url", "ftp://x"), ("--endpoint", "talk"), ("--prompt-tokens", "9:3"),
                      ("--output-tokens", "0"), ("--concurrency", "0"), ("--rate", "-1"),
                      ("--extra-body", "[1]"), ("--arrivals", "never"), ("--turns", "0"),
                      ("--temperature", "nan"), ("--requests", "9999999999")):
            outcome = self.ashlar.call("bench", "serve", *flags)
            self.assertEqual(outcome.code, 2, flags)
            self.assertIn(flags[1].removeprefix("-"), outcome.stderr)

    def test_without_a_server_it_fails_and_says_so(self):
        with socketserver.TCPServer(("127.0.0.1", 0), None) as unused:
            port = unused.server_address[1]
        outcome = self.bench(url=f"http://127.0.0.1:{port}")
        self.assertEqual(outcome.code, 1)
        self.assertIn("connect", outcome.stderr)

    def test_refusals_are_counted_with_the_servers_message(self):
        outcome = self.bench("--requests", 5, "--prompt-tokens", 9000, "--json")
        self.assertEqual(outcome.code, 1)  # none was answered
        rows = [json.loads(line) for line in outcome.stdout.splitlines()]
        self.assertEqual((rows[1]["name"], rows[1]["kind"], rows[1]["count"]),
                         ("serve/failure", "http 400", 5))
        self.assertIn("context length", rows[1]["example"])

    def test_hostile_answers_are_counted_by_kind(self):
        events = b"data: {\"choices\":[{\"text\":\"x\",\"finish_reason\":null}]}\n\n"
        answers = {
            "malformed": b"HTTP/1.1 200 OK\r\n\r\ndata: {{{{\n\n",
            "cut": b"HTTP/1.1 200 OK\r\n\r\n" + events,
            "too long": b"HTTP/1.1 200 OK\r\n\r\ndata: " + b"x" * (2 << 20),
            "protocol": b"\x00\x01\x02 no HTTP at all\r\n\r\n",
            "http 503": b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy",
        }
        for kind, answer in answers.items():
            with hostile(answer) as url:
                outcome = self.bench("--requests", 6, "--json", "--model", "m", url=url)
            rows = [json.loads(line) for line in outcome.stdout.splitlines()]
            self.assertEqual(outcome.code, 1, outcome.stderr)
            self.assertEqual([(row["kind"], row["count"]) for row in rows[1:]], [(kind, 6)])

    def test_interrupted_it_shows_what_it_has(self):
        command = [ARGS.binary, "bench", "serve", "--url", self.url, "--requests", "1000000",
                   "--output-tokens", "2", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stderr.readline()  # it says what it is about to do
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        summary = json.loads(stdout.splitlines()[0])
        self.assertTrue(summary["is_interrupted"], stderr)
        # 1 where the interrupt came before the first answer.
        self.assertEqual(process.returncode, 0 if summary["completed"] else 1)


class hostile:
    """A server that counts tokens like an honest one, and answers completions with given bytes."""

    def __init__(self, answer):
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                head = self.rfile.readline()
                length = 0
                while (line := self.rfile.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = self.rfile.read(length)
                if b"/tokenize" in head:
                    tokens = json.dumps({"tokens": [0] * json.loads(body)["prompt"].count(" ")})
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n" + tokens.encode())
                else:
                    try:
                        self.wfile.write(answer)
                    except OSError:
                        pass  # the client had enough

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *unused):
        self.server.shutdown()
        self.server.server_close()


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(ashlar_cli.DEFAULT_BINARY))
    parser.add_argument("--server", required=True, help="ashlar_scripted_server")
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
