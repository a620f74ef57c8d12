#!/usr/bin/env python3
"""What `ashlar plan` says of the default model, and of one with windows, is what `ashlar run` then reserves and uses.

plan_test.py --binary build/release/bin/ashlar --model MODEL.gguf
"""

import json
import sys
import unittest
from pathlib import Path

import ashlar_cli

ARGS = None  # set by main()

OK, FAILED, USAGE = 0, 1, 2


class PlanTest(ashlar_cli.AshlarTest):
    def plan(self, *arguments):
        outcome = self.ashlar.call("plan", "--json", *arguments)
        self.assertEqual(outcome.code, OK, outcome.stderr)
        self.assertEqual(outcome.stdout.count("\n"), 1)
        return json.loads(outcome.stdout)

    def assert_refused(self, outcome, code, *mentions):
        self.assertEqual(outcome.code, code, outcome.stderr)
        self.assertEqual(outcome.stdout, "")
        self.assertLess(len(outcome.stderr), 4000, "an error is a message, not a dump")
        for words in mentions:
            self.assertIn(words.lower(), outcome.stderr.lower())

    def run_kv(self, prompt_tokens, max_tokens, *arguments, model=None):
        """The outcome of a run over a prompt of that many tokens."""
        ids = self.folder / "ids.json"
        ids.write_text(json.dumps([1 + i % 1000 for i in range(prompt_tokens)]))
        return self.ashlar.call(
            "run", "--model", model or ARGS.model, "--prompt-ids", ids, "--json", "--ignore-eos",
            "--temperature", "0", "--max-tokens", str(max_tokens), *arguments,
        )  # fmt: skip

    def test_planned_bytes_are_what_a_run_uses_and_reserves(self):
        gemma = ashlar_cli.cached_model("gemma3")  # 15 of its 18 layers see 512 tokens
        for model, codec, block_tokens, prompt, generated in (
            (ARGS.model, "f16", 16, 1, 1),
            (ARGS.model, "f16", 64, 100, 13),
            (ARGS.model, "bf16", 16, 500, 13),
            (ARGS.model, "q8", 16, 112, 1),
            (ARGS.model, "balanced", 32, 600, 4),
            (ARGS.model, "k=f32,v=kc4", 16, 33, 16),
            (gemma, "f16", 16, 100, 3),
            (gemma, "f16", 32, 700, 2),
            (gemma, "q4", 16, 1100, 9),
        ):
            with self.subTest(model=Path(model).name, codec=codec, prompt=prompt, generated=generated):
                # K and V of the last token are never stored.
                stored = prompt + generated - 1
                planned = self.plan(
                    model, "--context", str(stored), "--kv-codec", codec,
                    "--block-tokens", str(block_tokens),
                )  # fmt: skip
                memory = planned["kv_memory_bytes"]
                outcome = self.run_kv(
                    prompt, generated, "--kv-codec", codec, "--block-tokens", str(block_tokens),
                    "--kv-memory", str(memory), model=model,
                )  # fmt: skip
                self.assertEqual(outcome.code, OK, outcome.stderr)
                kv = json.loads(outcome.stdout)["kv"]
                self.assertEqual(kv["bytes_per_token"], planned["kv_bytes_per_token"])
                self.assertEqual(kv["bytes_used"], planned["kv_bytes_held"])
                self.assertEqual(kv["bytes_reserved"], memory)
                if model == ARGS.model:  # no windows: what is held at the end is what was needed
                    self.assertEqual(kv["bytes_used"], planned["kv_bytes_per_sequence"])

    def test_what_fits_runs_and_one_token_more_does_not(self):
        for codec, memory in (("f16", "3MiB"), ("q4", "2MiB")):
            with self.subTest(codec=codec):
                flags = ("--kv-codec", codec, "--kv-memory", memory)
                context = self.plan(ARGS.model, *flags)["fits"]["context"]
                self.assertGreater(context, 50)
                self.assertLess(context, 500)
                self.assertEqual(self.run_kv(context, 1, *flags).code, OK)
                self.assert_refused(self.run_kv(context + 1, 1, *flags), FAILED, "--kv-memory")

    def test_a_model_file_is_exact_and_agrees_with_inspect(self):
        planned = self.plan(ARGS.model)
        outcome = self.ashlar.call("inspect", "--json", ARGS.model)
        inspected = json.loads(outcome.stdout)
        self.assertEqual(planned["weights_bytes"], inspected["weights_bytes"])
        self.assertEqual(planned["model"]["parameters"], inspected["parameters"])
        self.assertEqual(planned["context"], inspected["geometry"]["context"])
        presets = {row["codec"]: row["kv_bytes_per_token"] for row in planned["codecs"]}
        for name in ("exact", "q8", "balanced", "small-model", "q4"):
            self.assertEqual(presets[name], inspected["kv_bytes_per_token"][name])
        # The registry has the same geometry.
        named = self.plan("smollm2-135m")
        self.assertEqual(named["kv_bytes_per_token"], planned["kv_bytes_per_token"])
        self.assertEqual(named["kv_bytes_per_sequence"], planned["kv_bytes_per_sequence"])
        # The converter's rules are known well enough to guess a file of it.
        guess = self.plan("smollm2-135m", "--weights", "Q4_1")["weights_bytes"]
        self.assertAlmostEqual(guess / planned["weights_bytes"], 1, delta=0.01)

    def test_known_models_have_known_bytes(self):
        llama3 = self.plan("llama-3-70b", "--context", "128k")
        self.assertEqual(llama3["kv_bytes_per_sequence"], 42949672960)
        llama2 = self.plan("Llama-2-70B", "--context", "32k", "--sequences", "3")
        self.assertEqual(llama2["kv_bytes_per_sequence"], 10737418240)
        self.assertEqual(llama2["kv_bytes_total"], 3 * 10737418240)
        self.assertIsNone(llama2["fits"])

    def test_memory_of_this_machine_is_counted(self):
        planned = self.plan("llama-3.2-1b", "--memory", "machine", "--margin", "0%")
        memory = planned["memory"]
        self.assertGreater(memory["bytes"], 1 << 26)
        self.assertTrue(memory["source"])
        self.assertEqual(memory["margin_bytes"], 0)
        with_margin = self.plan("llama-3.2-1b", "--memory", "1000000000", "--margin", "7%")
        self.assertEqual(with_margin["memory"]["margin_bytes"], 70000000)

    def test_a_config_and_a_registry_of_ones_own(self):
        config = {
            "model_type": "mistral", "num_hidden_layers": 4, "hidden_size": 256,
            "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512,
            "vocab_size": 1000, "max_position_embeddings": 4096, "sliding_window": 100,
        }  # fmt: skip
        folder = self.folder / "my-model"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        planned = self.plan(folder)
        self.assertEqual(planned["model"]["name"], "my-model")
        self.assertEqual(planned["kv_bytes_per_token"], 2 * 4 * 2 * 64 * 2)
        self.assertEqual(planned["groups"][0]["window"], 100)
        self.assertLess(planned["kv_bytes_per_sequence"], 4096 * 2 * 4 * 2 * 64 * 2)
        registry = self.folder / "registry.json"
        registry.write_text(json.dumps({"models": [dict(config, id="mine")]}))
        own = self.plan("mine", "--registry", registry)
        self.assertEqual(own["kv_bytes_per_sequence"], planned["kv_bytes_per_sequence"])
        outcome = self.ashlar.call("plan", "--list", "--registry", registry)
        self.assertEqual(outcome.stdout, "mine\n")

    def test_the_page_is_complete_in_itself(self):
        page = self.folder / "plan.html"
        flags = ("gemma-3-27b", "--kv-memory", "40GiB", "--sequences", "4", "--html", page)
        outcome = self.ashlar.call("plan", *flags)
        self.assertEqual(outcome.code, OK, outcome.stderr)
        self.assertIn("sliding", outcome.stdout)
        text = page.read_text()
        self.assertEqual(text.count("<svg"), 2)
        for outside in ("src=", "href=", "@import", "<script"):
            self.assertNotIn(outside, text)
        nowhere = self.folder / "no" / "such" / "folder" / "plan.html"
        outcome = self.ashlar.call("plan", "gpt2", "--html", nowhere)
        self.assert_refused(outcome, FAILED, str(nowhere))

    def test_errors_name_what_is_wrong(self):
        def call(*arguments):
            return self.ashlar.call("plan", *arguments)

        self.assert_refused(call("llama-3-405b"), FAILED, "llama-3.1-405b")
        missing = self.folder / "missing.gguf"
        self.assert_refused(call(missing), FAILED, str(missing))
        broken = self.folder / "config.json"
        broken.write_text('{"num_hidden_layers": -3}')
        self.assert_refused(call(broken), FAILED, str(broken), "num_hidden_layers", "-3")
        for flag, value in (
            ("--context", "0"),
            ("--context", "lots"),
            ("--context", "2000000000"),
            ("--sequences", "0"),
            ("--kv-codec", "q17"),
            ("--block-tokens", "7"),
            ("--prefill-chunk", "0"),
            ("--weights", "Q9"),
            ("--memory", "12 parsecs"),
            ("--kv-memory", "lots"),
            ("--threads", "100000"),
        ):
            with self.subTest(flag=flag, value=value):
                self.assert_refused(call("gpt2", f"{flag}={value}"), USAGE, value)
        self.assert_refused(call("gpt2", "--memory=1GiB", "--margin=200%"), USAGE, "200%")
        self.assert_refused(call("gpt2", "--memory=1GiB", "--kv-memory=1GiB"), USAGE, "--kv-memory")


def main():
    global ARGS
    ARGS, rest = ashlar_cli.parser(__doc__).parse_known_args()
    ashlar_cli.AshlarTest.binary = ARGS.binary
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
