#!/usr/bin/env python3
"""A cache may change the time, never the answer, through the server: many unlike requests at once, in a cache
too small for them, and each completed answer is the one that the same request gets alone.

    mixed_load_test.py --binary build/release/bin/ashlar --maker build/release/bin/make_tiny_model
                       [--requests 200] [--seed 1] [--model MODEL.gguf --vocab N]

Prompts of 1 to 6,000 tokens, some with a prefix in common, greedy and sampled, n and best_of, whole and
streamed, some left by their client before the first token or in the middle. Answers are compared by the
ids and logprobs of their tokens. Alone is: one after the other, on a server without a prefix cache and
with memory for all.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import http.client
import json
import math
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ashlar_cli

ARGS = None  # set by main()

LONGEST_PROMPT = 6000
MOST_TOKENS = 40  # of an answer
CONTEXT = LONGEST_PROMPT + MOST_TOKENS
PREFIX_TOKENS = (300, 1200, 3600)
LIMIT_S = 600

# What a client does before it leaves: so many events of the stream it reads.
Request = collections.namedtuple("Request", "body leaves_after")


def make_requests(count, seed, vocab):
    """Seeded: the first has one token and the second 6,000; the rest are anything between."""
    draw = random.Random(seed)
    prefixes = [[draw.randrange(vocab) for _ in range(length)] for length in PREFIX_TOKENS]
    requests = []
    for i in range(count):
        length = (1, LONGEST_PROMPT)[i] if i < 2 else round(math.exp(draw.uniform(0, math.log(LONGEST_PROMPT))))
        prefix = draw.choice(prefixes) if draw.random() < 0.5 else []
        prompt = (prefix + [draw.randrange(vocab) for _ in range(length)])[:max(length, len(prefix) + 1)]
        body = {"prompt": prompt[:LONGEST_PROMPT], "max_tokens": draw.randint(1, MOST_TOKENS), "seed": i,
                "temperature": draw.choice((0, 0, 1)), "logprobs": draw.choice((0, 2)),
                "return_tokens_as_token_ids": True, "stream": draw.random() < 0.3}
        if draw.random() < 0.7:
            body["ignore_eos"] = True
        if draw.random() < 0.25:
            body["n"] = draw.randint(2, 4)
        elif draw.random() < 0.1 and not body["stream"]:
            body["best_of"] = 3
        if draw.random() < 0.1:
            body["presence_penalty"] = 1.0
        if draw.random() < 0.1:
            body["stop_token_ids"] = [draw.randrange(vocab) for _ in range(40)]
        leaves_after = None
        if i >= 2 and draw.random() < 0.15:
            body.update(stream=True, max_tokens=MOST_TOKENS, ignore_eos=True, best_of=body.get("n", 1))
            leaves_after = draw.randrange(4)
        requests.append(Request(body, leaves_after))
    return requests


def tokens_of(request):
    body = request.body
    return (len(body["prompt"]) + body["max_tokens"]) * max(body.get("n", 1), body.get("best_of", 1))


class Server:
    """`ashlar serve`, on a port of its own choice."""

    def __init__(self, model, *flags):
        self._command = [ARGS.binary, "serve", "--model", str(model), "--port", "0", *map(str, flags)]

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self._process.stderr:
            said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self._port = int(found[1])
                # What it says later must not fill the pipe.
                self._drain = concurrent.futures.ThreadPoolExecutor(1)
                self._drain.submit(lambda: collections.deque(self._process.stderr, maxlen=100))
                return self
        raise RuntimeError(f"{self._command}: {''.join(said)}")

    def __exit__(self, *unused):
        self._process.terminate()
        self._process.wait(timeout=60)
        self._drain.shutdown()
        self._process.stderr.close()

    def connect(self):
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S))

    def ask(self, request):
        """The choices of the answer; None when its client left."""
        with self.connect() as connection:
            body = request.body
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            if request.leaves_after == 0:
                return None
            response = connection.getresponse()
            if response.status != 200:
                raise AssertionError(f"http {response.status}: {response.read(500)}")
            if not body["stream"]:
                return [facts(choice) for choice in json.load(response)["choices"]]
            choices = [([], [], None) for _ in range(body.get("n", 1))]
            events = 0
            for line in response:
                if line.startswith(b"data: {"):
                    events += 1
                    for choice in json.loads(line[6:])["choices"]:
                        choices[choice["index"]] = joined(choices[choice["index"]], facts(choice))
                if events == request.leaves_after:
                    return None
            return choices

    def metric(self, name):
        with self.connect() as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(rf"{name}[ {{]", line)]
        if not values:
            raise AssertionError(f"/metrics has no {name}")
        return sum(values)


def facts(choice):
    """(ids of the tokens, their logprobs with the alternatives, why it ended): exact."""
    logprobs = choice["logprobs"] or {"tokens": [], "token_logprobs": [], "top_logprobs": []}
    numbers = list(zip(logprobs["token_logprobs"], map(str, logprobs["top_logprobs"])))
    return logprobs["tokens"], numbers, choice["finish_reason"]


def joined(one, other):
    return one[0] + other[0], one[1] + other[1], one[2] or other[2]


class MixedLoadTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ashlar-mixed-")
        self.addCleanup(folder.cleanup)
        self.model = ARGS.model
        if not self.model:
            self.model = Path(folder.name) / "tiny.gguf"
            subprocess.run([ARGS.maker, "plain", self.model, str(CONTEXT)], check=True)

    def kv_bytes_per_token(self):
        outcome = ashlar_cli.Ashlar(ARGS.binary).call("inspect", "--json", self.model)
        self.assertEqual(outcome.code, 0, outcome.stderr)
        return json.loads(outcome.stdout)["kv_bytes_per_token"]["f16"]

    def test_answers_are_those_of_the_same_requests_alone(self):
        requests = make_requests(ARGS.requests, ARGS.seed, ARGS.vocab)
        need = sum(map(tokens_of, requests)) * self.kv_bytes_per_token()
        flags = ("--max-context", CONTEXT)
        together = self.ask_together(requests, *flags, "--kv-memory", need // 4, "--max-sequences", 256)
        left = [answer is None for answer in together]
        self.assertEqual(left, [request.leaves_after is not None for request in requests])
        self.assertGreater(sum(left), len(requests) // 20)
        with Server(self.model, *flags, "--kv-memory", need, "--prefix-cache", "off") as server:
            for number, (request, answer) in enumerate(zip(requests, together)):
                if answer is not None:
                    self.assertEqual(server.ask(request), answer, f"request {number}")

    def ask_together(self, requests, *flags):
        with Server(self.model, *flags) as server:
            with concurrent.futures.ThreadPoolExecutor(len(requests)) as threads:
                answers = list(threads.map(server.ask, requests))
        return answers


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ashlar_cli.DEFAULT_BINARY))
    parser.add_argument("--maker", help="make_tiny_model")
    parser.add_argument("--model", help="another model than a tiny one")
    parser.add_argument("--vocab", type=int, default=256, help="ids below are ordinary tokens of it")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    ARGS, rest = parser.parse_known_args()
    if not ARGS.model and not ARGS.maker:
        parser.error("--maker or --model is needed")
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
