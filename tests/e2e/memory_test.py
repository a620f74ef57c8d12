#!/usr/bin/env python3
"""Memory: what was planned holds, whatever the weights' place; a mapped model is loaded without reading it.

memory_test.py --binary build/release/bin/ashlar --model MODEL.gguf
"""

import ctypes
import json
import mmap
import re
import sys
import unittest

import ashlar_cli
import ashlar_server
import sparse_model

ARGS = None  # set by main()

MIB = 1 << 20
# Tokenizer, bookkeeping, code and what allocators keep must fit into a tenth of what is planned.
LIMIT = 1.1


def resident_bytes(path):
    """Of a file's bytes, those that the system has in memory, whoever read them."""
    size = path.stat().st_size
    pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    # MAP_PRIVATE and writable, which from_buffer wants; nothing is written.
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
        found = (ctypes.c_ubyte * pages)()
        first = ctypes.c_char.from_buffer(view)
        code = libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), found)
        del first
        if code != 0:
            raise OSError(ctypes.get_errno(), "mincore")
    return sum(page & 1 for page in found) * mmap.PAGESIZE


class MemoryTest(ashlar_cli.AshlarTest):
    def run_model(self, model, ids, *flags):
        report = self.ashlar.run_json(
            model, ids, "--ignore-eos", "--temperature", "0", "--max-tokens", "2", "--threads", "2", *flags
        )
        memory = report["memory"]
        parts = ("weights_bytes", "kv_bytes", "workspace_bytes")
        self.assertEqual(memory["planned_bytes"], sum(memory[part] for part in parts))
        self.assertEqual(memory["kv_bytes"], report["kv"]["bytes_reserved"])
        return report, memory

    def assert_within_plan(self, memory):
        ratio = memory["peak_rss_bytes"] / memory["planned_bytes"]
        self.assertLessEqual(ratio, LIMIT, memory)
        print(f"peak {memory['peak_rss_bytes']} of {memory['planned_bytes']} bytes planned: {ratio:.3f}", flush=True)

    def test_the_peak_is_within_what_was_planned(self):
        # As many different tokens as fill the cache, so that all that is planned is used.
        ids = [1000 + 7 * i for i in range(2800)]
        tokens = []
        for weights in ("copy", "mmap"):
            with self.subTest(weights=weights):
                report, memory = self.run_model(ARGS.model, ids, "--kv-memory", "62MiB", "--weights", weights)
                self.assertEqual(memory["weights"], weights)
                self.assertGreater(report["kv"]["bytes_used"], 0.98 * memory["kv_bytes"])
                self.assertGreater(memory["peak_rss_bytes"], 0.7 * memory["planned_bytes"])
                self.assert_within_plan(memory)
                tokens.append(report["token_ids"])
                if weights == "copy":
                    plan = self.ashlar.call("plan", ARGS.model, "--json", "--memory", "1GiB", "--threads", "2")
                    planned = json.loads(plan.stdout)["memory"]
                    self.assertEqual(planned["weights_bytes"], memory["weights_bytes"])
                    self.assertEqual(planned["workspace_bytes"], memory["workspace_bytes"])
        self.assertEqual(tokens[0], tokens[1])

    def test_a_large_table_of_embeddings_is_not_in_memory_twice(self):
        # Two thirds of Gemma 3's weights are its table, which is its output matrix too.
        gemma = ashlar_cli.cached_model("gemma3")
        for weights in ("copy", "mmap"):
            with self.subTest(weights=weights):
                ids = [1 + 571 * i for i in range(300)]
                _, memory = self.run_model(gemma, ids, "--kv-memory", "8MiB", "--weights", weights)
                self.assert_within_plan(memory)

    def test_a_larger_model_is_within_its_plan_too(self):
        path = self.folder / "1b.gguf"
        stored = sparse_model.write(path, sparse_model.LLAMA_1B, "Q8_0")
        self.assertGreater(stored, 1000 * MIB)
        _, memory = self.run_model(path, [1, 2, 3], "--kv-memory", "16MiB")
        self.assertGreater(memory["peak_rss_bytes"], 0.8 * memory["planned_bytes"])
        self.assert_within_plan(memory)

    def test_a_mapped_model_is_loaded_without_reading_it(self):
        path = self.folder / "7b.gguf"
        stored = sparse_model.write(path, sparse_model.LLAMA_7B, "Q4_0")
        self.assertGreater(stored, 3600 * MIB)
        written = resident_bytes(path)
        server = ashlar_server.Server(
            ARGS.binary, "serve", "--model", path, "--weights", "mmap", "--kv-memory", "64MiB", "--port", "0",
            "--threads", "2",
        )  # fmt: skip
        with server:
            status, _, health = server.ask("GET", "/health")
            self.assertEqual(status, 200, health)
            rss = server.rss_bytes()
            read = resident_bytes(path) - written
            server.process.terminate()
            self.assertEqual(server.wait(), 0)
        self.assertLess(read, 64 * MIB)  # vectors, with what the system reads ahead of them
        self.assertLess(rss, 200 * MIB)
        print(f"{stored} bytes of weights: {read} read, {rss} resident", flush=True)
        # What a server took is said at its end.
        self.assertRegex(server.text(), r"peak resident [\d.]+ MiB; planned [\d.]+ GiB: weights .*\(mmap\)")

    def test_people_are_told_and_a_wrong_place_is_refused(self):
        outcome = self.ashlar.call("run", "--model", ARGS.model, "--kv-memory", "8MiB", "-n", "1", "Hello")
        self.assertEqual(outcome.code, 0, outcome.stderr)
        self.assertEqual(len(re.findall(r"peak resident .* planned .*\(copy\)", outcome.stderr)), 1, outcome.stderr)
        outcome = self.ashlar.call("run", "--model", ARGS.model, "--weights", "Q4_0", "Hello")
        self.assertEqual(outcome.code, 2)
        self.assertIn("--weights is 'Q4_0'", outcome.stderr)


def main():
    global ARGS
    ARGS, rest = ashlar_cli.parser(__doc__).parse_known_args()
    ashlar_cli.AshlarTest.binary = ARGS.binary
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
