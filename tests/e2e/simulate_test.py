#!/usr/bin/env python3
"""`ashlar simulate` against counts of a few lines each, and against a live server.

    simulate_test.py --binary build/release/bin/ashlar --model MODEL.gguf

With ASHLAR_TEST_TRACES, a folder of published traces, their known figures are checked as well.
"""

import collections
import csv
import json
import os
import random
import sys
import unittest
from pathlib import Path

import ashlar_cli
from ashlar_server import Server

ARGS = None  # set by main()

OK, FAILED, USAGE = 0, 1, 2
POLICIES = ["lru", "fifo", "lfu", "slru", "s3fifo", "sieve", "cost-aware", "optimum"]


def make_trace(requests, seed, block_tokens=512, most_blocks=20):
    """Prompts down a tree of blocks in which some branches are popular."""
    draw = random.Random(seed)
    ids = {}
    trace = []
    for i in range(requests):
        path = ()
        hashes = []
        for _ in range(draw.randint(1, most_blocks)):
            path += (int(6 * draw.random() ** 3),)
            hashes.append(ids.setdefault(path, len(ids)))
        trace.append({"timestamp": 100 * i, "input_length": block_tokens * len(hashes) - draw.randrange(block_tokens),
                      "output_length": draw.randint(2, 12), "hash_ids": hashes})
    return trace


def write_lines(path, lines):
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def count_unlimited(trace):
    """A block is a hit if it was seen before and all before it in its prompt are hits."""
    seen, hits = set(), 0
    for request in trace:
        for block in request["hash_ids"]:
            if block not in seen:
                break
            hits += 1
        seen.update(request["hash_ids"])
    return hits


def count_lru(trace, capacity):
    """What a request used is the youngest afterwards, its first block most of all."""
    cached, hits = collections.OrderedDict(), 0
    for request in trace:
        blocks = request["hash_ids"][:capacity]
        for block in blocks:
            if block not in cached:
                break
            hits += 1
        for block in blocks:
            cached.pop(block, None)
        while len(cached) + len(blocks) > capacity:
            cached.popitem(last=False)
        for block in reversed(blocks):
            cached[block] = True
    return hits


class SimulateTest(ashlar_cli.AshlarTest):
    def simulate(self, *arguments):
        outcome = self.ashlar.call("simulate", "--json", *arguments)
        self.assertEqual(outcome.code, OK, outcome.stderr)
        return [json.loads(line) for line in outcome.stdout.splitlines()]

    def assert_refused(self, outcome, code, *mentions):
        self.assertEqual(outcome.code, code, outcome.stderr)
        self.assertEqual(outcome.stdout, "")
        self.assertLess(len(outcome.stderr), 4000, "an error is a message, not a dump")
        for words in mentions:
            self.assertIn(words.lower(), outcome.stderr.lower())

    def test_the_cache_alone_is_what_independent_counts_say(self):
        trace = make_trace(500, seed=1)
        path = write_lines(self.folder / "trace.jsonl", trace)
        (row,) = self.simulate("--mode", "cache", "--trace", path)
        self.assertEqual(row["blocks_hit"], count_unlimited(trace))
        self.assertEqual(row["blocks_total"], sum(len(request["hash_ids"]) for request in trace))
        self.assertEqual(row["requests"], 500)
        rows = self.simulate("--mode", "cache", "--trace", path, "--blocks", "10,50,200", "--replacement", "all")
        self.assertEqual(len(rows), 3 * len(POLICIES))
        best = {row["params"]["blocks"]: row["blocks_hit"] for row in rows if row["params"]["replacement"] == "optimum"}
        for row in rows:
            blocks = row["params"]["blocks"]
            self.assertLessEqual(row["blocks_hit"], best[blocks], row["params"])
            if row["params"]["replacement"] == "lru":
                self.assertEqual(row["blocks_hit"], count_lru(trace, int(blocks)))

    def test_published_traces_have_their_known_figures(self):
        folder = os.environ.get("ASHLAR_TEST_TRACES")
        if not folder:
            self.skipTest("ASHLAR_TEST_TRACES names no folder of traces")
        synthetic = Path(folder) / "mooncake_synthetic_trace.jsonl"
        trace = [json.loads(line) for line in synthetic.read_text().splitlines()]
        (row,) = self.simulate("--mode", "cache", "--trace", synthetic)
        self.assertEqual(row["blocks_hit"], count_unlimited(trace))
        self.assertAlmostEqual(row["hit_rate_blocks"], 0.6396, places=4)
        self.assertAlmostEqual(row["hit_rate_tokens"], 0.6512, places=4)
        rows = self.simulate("--mode", "cache", "--trace", synthetic, "--blocks", "1000,10000",
                             "--replacement", "lru,optimum")
        for row in rows[:2]:
            self.assertEqual(row["blocks_hit"], count_lru(trace, int(row["params"]["blocks"])))
        self.assertAlmostEqual(rows[1]["hit_rate_blocks"], 0.4239, places=4)
        self.assertAlmostEqual(rows[3]["hit_rate_blocks"], 0.6180, delta=0.001)
        (row,) = self.simulate("--mode", "cache", "--trace", Path(folder) / "dynamo_mooncake_trace_1000.jsonl")
        self.assertAlmostEqual(row["hit_rate_blocks"], 0.3799, places=4)
        (row,) = self.simulate("--mode", "cache", "--trace", Path(folder) / "AzureLLMInferenceTrace_code.csv")
        self.assertEqual((row["requests"], row["hit_tokens"]), (8819, 0))

    def test_the_same_again_is_the_same_to_the_byte(self):
        outputs = []
        for turn in ("a", "b"):
            files = [self.folder / f"{turn}.{kind}" for kind in ("csv", "html", "svg")]
            outcome = self.ashlar.call(
                "simulate", "--model", "llama-3-8b", "--cost", "l4", "--workload", "chat", "-n", "300", "--rate", "2",
                "--kv-memory", "2GiB,4GiB", "--replacement", "lru,sieve", "--kv-codec", "f16", "--kv-codec", "q8",
                "--csv", files[0], "--html", files[1], "--svg", files[2])  # fmt: skip
            self.assertEqual(outcome.code, OK, outcome.stderr)
            outputs.append([outcome.stdout] + [file.read_text() for file in files])
        self.assertEqual(outputs[0], outputs[1])
        rows = list(csv.DictReader(outputs[0][1].splitlines()))
        self.assertEqual(len(rows), 8)
        self.assertGreater(float(rows[0]["ttft_ms.p99"]), 0)
        self.assertIn("<svg", outputs[0][2])

    def test_bad_lines_are_named_or_skipped(self):
        good = make_trace(5, seed=2)
        for bad, says in (
            ('{"timestamp": 1, "input_le', "not a json object"),
            ({**good[0], "timestamp": -1}, "'timestamp' is -1"),
            ({**good[0], "input_length": 1e30}, "'input_length' is 1e+30"),
            ({"timestamp": 300}, "'input_length' is missing"),
            ({**good[0], "timestamp": 150}, "is before the 200.000 ms of line 3"),
        ):
            # After the third line, and as long as it is none the last.
            line = bad + "\n" if isinstance(bad, str) else bad
            path = write_lines(self.folder / "bad.jsonl", [*good[:3], line, *good[3:]])
            outcome = self.ashlar.call("simulate", "--mode", "cache", "--trace", path)
            self.assert_refused(outcome, FAILED, "bad.jsonl:4: ", says)
            outcome = self.ashlar.call("simulate", "--mode", "cache", "--trace", path, "--skip-bad", "--json")
            self.assertEqual(outcome.code, OK, outcome.stderr)
            row = json.loads(outcome.stdout)
            self.assertEqual((row["requests"], row["skipped_lines"]), (5, 1))
            self.assertIn("bad.jsonl:4: ", outcome.stderr)

    def test_flags_that_ask_for_nothing_are_refused(self):
        for arguments, says in (
            ((), "--trace file or --workload"),
            (("--workload", "bursts"), "shared-prompt, chat, rag and agent"),
            (("--workload", "chat", "--mode", "both"), "serve or cache"),
            (("--workload", "chat"), "serve mode needs --cost"),
            (("--workload", "chat", "--cost", "abacus"), "one of a100-80g"),
            (("--workload", "chat", "--cost", "h100", "--replacement", "optimum"), "only --mode cache"),
            (("--workload", "chat", "--mode", "cache", "--replacement", "mru"), "lru"),
            (("--workload", "chat", "--mode", "cache", "--blocks", "0"), "--blocks is '0'"),
            (("--mode", "cache", "--trace", "/no/such/file"), "cannot open the trace"),
        ):
            outcome = self.ashlar.call("simulate", "--model", "llama-3-8b", *arguments)
            self.assertNotEqual(outcome.code, OK, arguments)
            self.assertIn(says, outcome.stderr.lower(), arguments)

    def test_a_recorded_day_hits_what_the_server_served(self):
        """Several turns of several conversations, their answers among the prompts; little memory."""
        path = self.folder / "recorded.jsonl"
        draw = random.Random(3)
        served = 0
        with Server(ARGS.binary, "serve", "--model", ARGS.model, "--port", "0", "--kv-memory", "12MiB",
                    "--record-trace", path) as server:  # fmt: skip
            texts = [f"You are helpful. Conversation {i}." for i in range(3)]
            for turn in range(9):
                i = turn % 3
                texts[i] += " " + " ".join(draw.choice(("why", "is", "the", "sky", "blue")) for _ in range(25))
                status, _, answer = server.ask("POST", "/v1/completions", {
                    "prompt": texts[i], "max_tokens": 12, "temperature": 0,
                    "cache_salt": "salted" if i == 2 else ""})  # fmt: skip
                self.assertEqual(status, 200, answer)
                texts[i] += answer["choices"][0]["text"]
                served += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        recorded = path.read_text()
        self.assertNotIn("helpful", recorded)
        self.assertNotIn("salted", recorded)
        self.assertEqual(len(recorded.splitlines()), 9)
        (row,) = self.simulate("--model", ARGS.model, "--cost", "l4", "--kv-memory", "12MiB", "--trace", path)
        self.assertEqual(row["hit_tokens"], served)
        self.assertGreater(served, 200)
        self.assertEqual(row["requests"], 9)
        again = Server(ARGS.binary, "serve", "--model", ARGS.model, "--port", "0", "--record-trace", path)
        with self.assertRaisesRegex(RuntimeError, "a trace cannot be continued"):
            again.__enter__()
        self.assertEqual(path.read_text(), recorded)

    def test_predicted_hits_are_measured(self):
        """Times are printed, not asserted: on a machine that others use as well they say nothing."""
        cost = self.folder / "cost.json"
        outcome = self.ashlar.call("bench", "cost", "--model", ARGS.model, "--depth", "64", "--rounds", "1",
                                   "--max-sequences", "4", "--out", cost)  # fmt: skip
        self.assertEqual(outcome.code, OK, outcome.stderr)
        path = write_lines(self.folder / "trace.jsonl", make_trace(16, seed=4, block_tokens=32, most_blocks=6))
        with Server(ARGS.binary, "serve", "--model", ARGS.model, "--port", "0", "--kv-memory", "24MiB") as server:
            outcome = self.ashlar.call(
                "simulate", "--json", "--model", ARGS.model, "--cost", cost, "--kv-memory", "24MiB", "--trace", path,
                "--trace-block-tokens", "32", "--concurrency", "1", "--compare",
                f"http://127.0.0.1:{server.port}")  # fmt: skip
        self.assertEqual(outcome.code, OK, outcome.stderr)
        row = json.loads(outcome.stdout)
        predicted, measured = row["predicted"], row["measured"]
        self.assertEqual(row["failed"], 0)
        for name in ("requests", "prompt_tokens", "hit_tokens", "output_tokens"):
            self.assertEqual(predicted[name], measured[name], name)
        self.assertGreater(measured["hit_tokens"], 300)
        for name in ("ttft_mean_ms", "duration_s"):
            print(f"{name}: predicted {predicted[name]:.2f}, measured {measured[name]:.2f}", file=sys.stderr)
        self.assertGreater(predicted["duration_s"], 0)


def main():
    global ARGS
    ARGS, rest = ashlar_cli.parser(__doc__).parse_known_args()
    ashlar_cli.AshlarTest.binary = ARGS.binary
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
