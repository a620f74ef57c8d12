#!/usr/bin/env python3
"""A running server as its operators see it: metrics, log, trace, explanations, events, sleep.

observability_test.py --binary build/release/bin/ashlar --model MODEL.gguf
"""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

import ashlar_cli
from prometheus_client.parser import text_string_to_metric_families

ARGS = None  # set by main()
START_S = 120  # to load a model on a busy machine
SECRET = "plain granite"  # of prompts: must never be logged
PROMPT = f"The {SECRET} wall stood for a thousand years because its builders knew that " * 8


class Server:
    """`ashlar serve` with its log read as it is written."""

    def __init__(self, *flags):
        command = [ARGS.binary, "serve", "--model", ARGS.model, "--port", "0"]
        command += ["--kv-memory", "256MiB", "--log-format", "json", "--log-level", "debug", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.changed = threading.Condition()
        threading.Thread(target=self._read_log, daemon=True).start()
        line = self.wait_for(lambda line: line["msg"].startswith("serving "), START_S)
        self.port = int(re.search(r":(\d+)/v1", line["msg"])[1])

    def _read_log(self):
        for text in self.process.stderr:
            with self.changed:
                self.lines.append(json.loads(text))
                self.changed.notify_all()

    def wait_for(self, is_it, seconds=20):
        """The first line of the log for which is_it is true."""
        with self.changed:
            found = self.changed.wait_for(
                lambda: next((line for line in self.lines if is_it(line)), None), seconds
            )
            if found is None:
                raise AssertionError(f"no such line in the log: {self.lines[-5:]}")
            return found

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method, path, body=None, headers=()):
        connection = self.connect()
        connection.request(method, path, json.dumps(body) if body else None, dict(headers))
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response, text

    def ask_json(self, method, path, body=None, headers=()):
        response, text = self.ask(method, path, body, headers)
        if response.status != 200:
            raise AssertionError(f"{method} {path}: {response.status} {text}")
        return json.loads(text)

    def complete(self, prompt, request_id, max_tokens=8, **fields):
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **fields}
        return self.ask_json("POST", "/v1/completions", body, {"X-Request-Id": request_id}.items())

    def metrics(self):
        """After the last step: clients hear of an end within it, so the engine is asked first."""
        self.ask_json("GET", "/kv/state?runs=0")
        response, text = self.ask("GET", "/metrics")
        assert response.getheader("Content-Type").startswith("text/plain; version=0.0.4"), text
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def sum_of(metrics, name):
    return sum(value for (sample, _), value in metrics.items() if sample == name)


class Events:
    """An EventSource: reads messages, remembers the last id."""

    def __init__(self, server, path, last_id=None):
        self.connection = server.connect()
        headers = {"Last-Event-ID": last_id} if last_id else {}
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        self.last_id = last_id

    def next(self):
        """(event, data) of the next message, or None at the end."""
        event, data = None, None
        for raw in iter(self.response.readline, b""):
            line = raw.decode().rstrip("\n")
            if not line and event:
                return event, json.loads(data)
            if line.startswith("id: "):
                self.last_id = line[4:]
            elif line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
        return None


class ObservabilityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        if cls.server.process.poll() is None:
            cls.server.process.kill()
        cls.server.process.wait()

    def test_1_requests_are_counted_logged_explained_and_traced(self):
        server = self.server
        first = server.complete(PROMPT, "first")
        again = server.complete(PROMPT, "again")
        self.assertEqual(first["choices"], again["choices"])
        prompt = first["usage"]["prompt_tokens"]
        cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached, prompt - 1)

        line = server.wait_for(lambda line: line.get("id") == "again")
        self.assertEqual(line["msg"], "request")
        self.assertEqual(line["route"], "/v1/completions")
        self.assertEqual(line["status"], 200)
        self.assertEqual(line["prompt_tokens"], prompt)
        self.assertEqual(line["cached_tokens"], cached)
        self.assertEqual(line["completion_tokens"], 8)
        self.assertEqual(line["finish"], "length")
        self.assertGreater(line["ms"], line["ttft_ms"])
        for text in server.lines:
            self.assertRegex(text["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
            self.assertNotIn(SECRET, json.dumps(text))

        metrics = server.metrics()
        self.assertEqual(sum_of(metrics, "vllm:prompt_tokens_total"), 2 * prompt)
        self.assertEqual(sum_of(metrics, "vllm:prefix_cache_hits_total"), cached)
        self.assertEqual(sum_of(metrics, "vllm:generation_tokens_total"), 16)
        self.assertEqual(sum_of(metrics, "vllm:time_to_first_token_seconds_count"), 2)
        self.assertEqual(sum_of(metrics, "vllm:inter_token_latency_seconds_count"), 14)
        self.assertEqual(
            sum_of(metrics, "ashlar:kv_bytes"), sum_of(metrics, "ashlar:kv_arena_bytes")
        )
        self.assertEqual(sum_of(metrics, "ashlar:kv_arena_bytes"), 256 << 20)

        told = server.ask_json("GET", "/kv/explain/again")
        admission = told["sequences"][0]["admissions"][0]
        self.assertEqual(admission["hit_tokens"]["ram"], cached)
        self.assertEqual(admission["reason"], "none")
        self.assertEqual(server.ask_json("GET", f"/kv/explain/{first['id']}")["request"], "first")

        trace = server.ask_json("GET", "/debug/trace?seconds=3600")["traceEvents"]
        steps = [event for event in trace if event["name"].startswith("step ")]
        self.assertEqual(len(steps), sum_of(metrics, "ashlar:steps_total"))
        self.assertTrue(all(event["dur"] > 0 for event in steps))
        self.assertEqual({event["name"] for event in trace if event["ph"] == "b"},
                         {"first", "again", "queue", "prefill", "decode"})

        state = server.ask_json("GET", "/kv/state")
        self.assertEqual(sum(row["bytes"] for row in state["bytes"]), state["arena_bytes"])
        self.assertNotIn(SECRET, json.dumps(state))

    def test_2_events_are_replayed_followed_and_resumed(self):
        server = self.server
        events = Events(server, "/kv/events?from=1")
        kind, hello = events.next()
        self.assertEqual(kind, "hello")
        stored = {}
        seen = 0

        def read_until(last):
            nonlocal seen
            while seen < last:
                kind, data = events.next()
                self.assertEqual(data["seq"], seen + 1)
                seen += 1
                place = (data["key"], data["group"])
                if kind == "stored":
                    self.assertNotIn(place, stored)
                    stored[place] = data["tokens"]
                else:
                    stored.pop(place)

        read_until(hello["last"])
        server.complete("A quite different text about rivers and their banks. " * 4, "rivers")
        last = sum_of(server.metrics(), "ashlar:kv_events_total")
        self.assertGreater(last, hello["last"])
        read_until(last)
        tree = server.ask_json("GET", "/kv/state")["tree"]
        self.assertEqual(len(stored), tree["nodes"])
        events.connection.close()

        server.complete("And a third one, about bridges. " * 6, "bridges")
        events = Events(server, "/kv/events?from=1", events.last_id)
        self.assertEqual(events.next()[0], "hello")
        read_until(sum_of(server.metrics(), "ashlar:kv_events_total"))
        self.assertEqual(len(stored), server.ask_json("GET", "/kv/state")["tree"]["nodes"])
        events.connection.close()

    def test_3_sleep_gives_the_memory_back_and_waking_takes_it_again(self):
        server = self.server
        for i in range(2):
            server.complete(f"{i} " + PROMPT * 12, f"fill-{i}", max_tokens=1)
        before = server.resident_bytes()
        idle = sum(
            row["bytes"] for row in server.ask_json("GET", "/kv/state")["bytes"]
            if row["state"] == "idle"
        )
        self.assertGreater(idle, 64 << 20)
        self.assertTrue(server.ask_json("POST", "/sleep?level=1")["is_sleeping"])
        self.assertLess(server.resident_bytes(), before - idle + (16 << 20))
        response, text = server.ask("POST", "/v1/completions", {"prompt": "x"})
        self.assertEqual(response.status, 503, text)
        self.assertGreater(int(response.getheader("Retry-After")), 0)
        self.assertFalse(server.ask_json("POST", "/wake_up")["is_sleeping"])
        again = server.complete(PROMPT, "awake")
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        server.ask_json("POST", "/reset_prefix_cache")
        again = server.complete(PROMPT, "reset")
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_4_a_client_that_leaves_is_logged(self):
        server = self.server
        connection = server.connect()
        body = {"prompt": "Count:", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"X-Request-Id": "leaver"})
        self.assertEqual(connection.getresponse().readline()[:5], b"data:")
        connection.sock.close()
        connection.close()
        line = server.wait_for(lambda line: line.get("id") == "leaver")
        self.assertEqual(line["finish"], "abort")
        self.assertTrue(line["client_left"])
        self.assertLess(line["completion_tokens"], 4000)

    def test_5_a_stream_of_events_does_not_hold_the_end_up(self):
        events = Events(self.server, "/kv/events")
        self.assertEqual(events.next()[0], "hello")
        start = time.monotonic()
        self.assertEqual(self.server.stop(), 0)
        self.assertLess(time.monotonic() - start, 4)  # the drain alone is 5 s
        while events.next() is not None:
            pass


def main():
    global ARGS
    ARGS, rest = ashlar_cli.parser(__doc__).parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2, failfast=True)


if __name__ == "__main__":
    main()
