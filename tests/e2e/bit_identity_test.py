#!/usr/bin/env python3
"""A cache may change the time, never the answer: files of --logits-out are compared byte for byte.

    bit_identity_test.py --binary build/release/bin/ashlar --model MODEL.gguf

Within one KV codec nothing may change a bit of any logit: not the prefill chunk, the number of
threads, the block size, the instruction set, nor whether a position was computed as prompt or as
completion. Batches and preemption are compared in C++ tests, which can see the engine's steps.
"""

import filecmp
import sys
import unittest

import numpy as np

import ashlar_cli

ARGS = None  # set by main()

CODECS = ("f32", "f16", "bf16")
ISAS = ("reference", "avx2", "avx512", "neon")
COMPLETION = 6

# Token ids that any vocabulary of at least 40,000 has; 300 of them cross a border of 256-token
# segments.
IDS = [int(token) for token in np.random.default_rng(20).integers(100, 40_000, 1100)]
SHORT, MIDDLE, LONG = IDS[:24], IDS[:300], IDS


class BitIdentityTest(ashlar_cli.AshlarTest):
    def logits(self, ids, *flags, max_tokens=COMPLETION):
        """(file of logits, generated ids) of one run."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.f32"
        report = self.ashlar.write_logits(
            ARGS.model, ids, path, "--ignore-eos", *flags, max_tokens=max_tokens
        )
        self.assertEqual(report["prompt_tokens"], len(ids))
        self.assertEqual(len(report["token_ids"]), max_tokens)
        self.assertGreaterEqual(path.stat().st_size, len(ids) * 4)
        return path, report["token_ids"]

    def assert_same_bits(self, baseline, variant, what):
        if filecmp.cmp(baseline, variant, shallow=False):
            variant.unlink()
            return
        one, other = (np.fromfile(path, dtype="<u4") for path in (baseline, variant))
        if len(one) != len(other):
            self.fail(f"{what}: {len(other)} logits, {len(one)} without it")
        at = int(np.flatnonzero(one != other)[0])
        values = one[at : at + 1].view("<f4")[0], other[at : at + 1].view("<f4")[0]
        self.fail(f"{what}: logit {at} of {len(one)} is {values[1]!r}, {values[0]!r} without it")

    def compare_all(self, ids, shared, variants):
        baseline, tokens = self.logits(ids, *shared)
        for flags in variants:
            with self.subTest(shared=shared, flags=flags):
                variant, variant_tokens = self.logits(ids, *shared, *flags)
                self.assert_same_bits(baseline, variant, " ".join(flags))
                self.assertEqual(variant_tokens, tokens)
        return baseline

    def test_chunk_threads_and_block_size_change_no_bit(self):
        variants = (
            ("--prefill-chunk", "7", "--threads", "2"),
            ("--prefill-chunk", "32", "--threads", "1"),
            ("--block-tokens", "16"),
            ("--block-tokens", "64", "--threads", "1"),
        )
        for codec in CODECS:
            self.compare_all(MIDDLE, ("--kv-codec", codec), variants)

    def test_prefill_token_by_token_changes_no_bit(self):
        self.compare_all(MIDDLE, ("--kv-codec", "f16"), (("--prefill-chunk", "1"),))

    def test_prefill_in_thousands_or_in_one_piece_changes_no_bit(self):
        self.compare_all(LONG, (), (("--prefill-chunk", "1000"), ("--prefill-chunk", "4096")))

    def test_instruction_set_changes_no_bit(self):
        names = self.runnable_isas()
        self.assertIn("reference", names)
        for codec in CODECS:
            variants = [("--isa", name) for name in names]
            self.compare_all(SHORT, ("--kv-codec", codec), variants)
        fast = [("--isa", name) for name in names if name != "reference"]
        self.compare_all(MIDDLE, ("--kv-codec", "f16"), fast)

    def test_completion_has_the_bits_of_the_same_tokens_as_prompt(self):
        for codec in CODECS:
            with self.subTest(codec=codec):
                written, tokens = self.logits(SHORT, "--kv-codec", codec)
                read, _ = self.logits(SHORT + tokens[:-1], "--kv-codec", codec, max_tokens=0)
                size = read.stat().st_size
                self.assertGreaterEqual(written.stat().st_size, size)
                with open(written, "rb") as file:
                    self.assertEqual(file.read(size), read.read_bytes())

    def test_codecs_do_differ(self):
        # Else every comparison above could pass because --kv-codec is ignored.
        files = [self.logits(SHORT, "--kv-codec", codec)[0].read_bytes() for codec in CODECS]
        self.assertEqual(len(set(files)), len(CODECS))

    def runnable_isas(self):
        """The names that the refusal of an unknown one lists."""
        outcome = self.ashlar.call(
            "run", "--model", ARGS.model, "--prompt", "x", "--isa", "no-such-isa"
        )
        self.assertNotEqual(outcome.code, 0)
        self.assertIn("no-such-isa", outcome.stderr)
        return [name for name in ISAS if name in outcome.stderr]


def main():
    global ARGS
    ARGS, rest = ashlar_cli.parser(__doc__).parse_known_args()
    ashlar_cli.AshlarTest.binary = ARGS.binary
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
