#!/usr/bin/env python3
"""What scripts rely on: exit codes, what stands on stdout, and errors that say what to do.

cli_contract_test.py --binary build/release/bin/ashlar --model MODEL.gguf
"""

import json
import shutil
import sys
import unittest
from pathlib import Path

import ashlar_cli

ARGS = None  # set by main()

OK, FAILED, USAGE = 0, 1, 2
PROMPT = "The capital of France is"


class CliContractTest(ashlar_cli.AshlarTest):
    def run_prompt(self, *arguments, model=None):
        model = model or ARGS.model
        return self.ashlar.call("run", "--model", model, "--raw", "--prompt", PROMPT, *arguments)

    def assert_refused(self, outcome, codes, *mentions):
        codes = (codes,) if isinstance(codes, int) else codes
        self.assertIn(outcome.code, codes, outcome.stderr)
        self.assertEqual(outcome.stdout, "")
        self.assertLess(len(outcome.stderr), 4000, "an error is a message, not a dump")
        for words in mentions:
            self.assertIn(words.lower(), outcome.stderr.lower())

    # stdout and JSON

    def test_json_is_one_object_and_nothing_else(self):
        outcome = self.run_prompt("--json", "--max-tokens", "5", "--temperature", "0")
        self.assertEqual(outcome.code, OK, outcome.stderr)
        report = json.loads(outcome.stdout)  # refuses anything beside one value
        self.assertIsInstance(report, dict)
        self.assertEqual(outcome.stdout.count("\n"), 1)
        kinds = {
            "text": str,
            "token_ids": list,
            "prompt_tokens": int,
            "cached_tokens": int,
            "completion_tokens": int,
            "finish_reason": str,
            "ttft_ms": (int, float),
            "prefill_tokens_per_s": (int, float),
            "decode_tokens_per_s": (int, float),
        }
        for name, kind in kinds.items():
            self.assertIsInstance(report.get(name), kind, name)
        self.assertEqual(report["completion_tokens"], 5)
        self.assertEqual(len(report["token_ids"]), 5)
        self.assertEqual(report["finish_reason"], "length")
        self.assertIn("Paris", report["text"])

    def test_json_accounts_for_the_cache(self):
        # SmolLM2-135M: 30 layers x 3 kv heads x 64 x (K and V) = 11,520 elements a token.
        for codec, bytes_per_token in (("f32", 46080), ("f16", 23040), ("bf16", 23040)):
            outcome = self.run_prompt(
                "--json", "--max-tokens", "2", "--kv-codec", codec, "--block-tokens", "16"
            )
            self.assertEqual(outcome.code, OK, outcome.stderr)
            kv = json.loads(outcome.stdout)["kv"]
            self.assertEqual((kv["codec"], kv["block_tokens"]), (codec, 16))
            self.assertEqual(kv["bytes_per_token"], bytes_per_token)
            self.assertEqual(kv["bytes_used"] % (16 * bytes_per_token), 0)
            self.assertGreater(kv["bytes_used"], 0)
            self.assertGreaterEqual(kv["bytes_reserved"], kv["bytes_used"])

    def test_without_json_stdout_is_the_text(self):
        outcome = self.run_prompt("--max-tokens", "5", "--temperature", "0")
        self.assertEqual(outcome.code, OK, outcome.stderr)
        self.assertIn("Paris", outcome.stdout)
        self.assertNotIn("tokens/s", outcome.stdout)

    def test_greedy_runs_repeat(self):
        texts = {
            self.run_prompt("--max-tokens", "8", "--temperature", "0").stdout for _ in range(2)
        }
        self.assertEqual(len(texts), 1)

    def test_seeded_runs_repeat_and_seeds_matter(self):
        def tokens(seed):
            outcome = self.run_prompt(
                "--json", "--max-tokens", "16", "--temperature", "1.5", "--seed", seed
            )
            self.assertEqual(outcome.code, OK, outcome.stderr)
            return json.loads(outcome.stdout)["token_ids"]

        self.assertEqual(tokens("11"), tokens("11"))
        self.assertNotEqual(tokens("11"), tokens("12"))

    # usage

    def test_help_is_a_success(self):
        benches = [("bench", part) for part in ("cache", "limits", "attention", "matmul")]
        for command in ((), ("run",), ("serve",), ("inspect",), ("eval",), ("bench",), *benches):
            outcome = self.ashlar.call(*command, "--help")
            self.assertEqual(outcome.code, OK, outcome.stderr)
            self.assertTrue(outcome.stdout.strip())

    def test_version_is_a_success(self):
        outcome = self.ashlar.call("--version")
        self.assertEqual(outcome.code, OK, outcome.stderr)
        self.assertRegex(outcome.stdout, r"\d+\.\d+\.\d+")

    def test_no_command_is_a_usage_error(self):
        self.assertEqual(self.ashlar.call().code, USAGE)

    def test_unknown_command_is_a_usage_error(self):
        self.assert_refused(self.ashlar.call("frobnicate"), USAGE, "frobnicate")

    def test_unknown_flag_is_a_usage_error(self):
        self.assert_refused(self.run_prompt("--no-such-flag"), USAGE, "--no-such-flag")

    def test_bad_values_are_usage_errors_that_name_the_value(self):
        for flag, value in (
            ("--isa", "mmx"),
            ("--kv-codec", "q17"),
            ("--block-tokens", "7"),
            ("--prefill-chunk", "0"),
            ("--threads", "-3"),
            ("--threads", "many"),
            ("--max-tokens", "lots"),
            ("--temperature", "-1"),
            ("--temperature", "nan"),
            ("--top-p", "1.5"),
            ("--kv-memory", "12 parsecs"),
        ):
            with self.subTest(flag=flag, value=value):
                self.assert_refused(self.run_prompt(f"{flag}={value}"), USAGE, value)

    # models

    def test_missing_model_names_the_path(self):
        path = self.folder / "nothing-here.gguf"
        self.assert_refused(self.run_prompt(model=path), FAILED, str(path))

    def test_folder_as_model_is_refused(self):
        self.assert_refused(self.run_prompt(model=self.folder), (FAILED, USAGE), str(self.folder))

    def test_file_of_another_kind_is_refused(self):
        path = self.folder / "letter.gguf"
        path.write_text("Dear reader, this is not a model.\n" * 100)
        self.assert_refused(self.run_prompt(model=path), FAILED, str(path), "gguf")

    def test_empty_file_is_refused(self):
        path = self.folder / "empty.gguf"
        path.touch()
        self.assert_refused(self.run_prompt(model=path), FAILED, str(path))

    def test_truncated_model_is_refused(self):
        # Inside the header, the metadata, the tensor directory or the data, and one byte short.
        whole = Path(ARGS.model).stat().st_size
        for size in (3, 20, 5_000, 1_000_000, 50_000_000, whole - 1):
            with self.subTest(size=size):
                path = self.folder / f"first-{size}.gguf"
                with open(ARGS.model, "rb") as source, open(path, "wb") as target:
                    target.write(source.read(size))
                self.assert_refused(self.run_prompt("--json", model=path), FAILED, str(path))
                path.unlink()

    def test_damaged_metadata_is_refused(self):
        path = self.folder / "damaged.gguf"
        shutil.copyfile(ARGS.model, path)
        with open(path, "r+b") as file:
            file.seek(8)
            file.write(b"\xff" * 16)  # tensor and metadata counts of 2^64 - 1
        self.assert_refused(self.run_prompt(model=path), FAILED, str(path))

    # eval

    def run_eval(self, text, *arguments):
        path = self.folder / "held.txt"
        path.write_bytes(text)
        return self.ashlar.call("eval", "--model", ARGS.model, "--text", str(path), *arguments)

    def test_eval_prints_one_object_per_codec_and_writes_its_files(self):
        text = b"In the beginning was the word, and the word was with a tokenizer. " * 10
        svg, table = self.folder / "plot.svg", self.folder / "table.md"
        outcome = self.run_eval(
            text, "--window=64", "--skip=8", "--windows=1", "--codecs", "f32", "f16", "--json",
            f"--svg={svg}", f"--markdown={table}",
        )  # fmt: skip
        self.assertEqual(outcome.code, OK, outcome.stderr)
        f32, f16 = (json.loads(line) for line in outcome.stdout.splitlines())
        self.assertEqual((f32["codec"], f16["codec"]), ("f32", "f16"))
        self.assertEqual((f32["kv_bytes_per_token"], f16["kv_bytes_per_token"]), (46080, 23040))
        self.assertEqual(f32["max_kl_nats"], 0)
        self.assertGreater(f16["mean_kl_nats"], 0)
        self.assertLess(f16["mean_kl_nats"], 1e-3)
        self.assertEqual(f16["positions"], 64 - 1 - 8)
        self.assertEqual(f16["perplexity_f32"], f32["perplexity"])
        self.assertIn(">f16<", svg.read_text())
        self.assertIn("| `f16` | 23,040 |", table.read_text())

    def test_eval_refuses_what_it_cannot_measure_and_names_it(self):
        text = b"A text of few words.\n"
        self.assert_refused(self.ashlar.call("eval", "--model", ARGS.model), USAGE, "--text")
        self.assert_refused(self.run_eval(text), USAGE, "held.txt", "one window takes 2048")
        self.assert_refused(self.run_eval(b"caf\xe9" + text), USAGE, "UTF-8", "byte 3")
        for flags, named in (
            (("--codecs=q17",), "q17"),
            (("--window=9000",), "8192"),
            (("--window=words",), "words"),
            (("--skip=2047",), "2047"),
            (("--block-tokens=7",), "7"),
        ):
            with self.subTest(flags=flags):
                self.assert_refused(self.run_eval(text * 3000, *flags), USAGE, named)

    # prompts

    def test_bad_prompt_ids_are_refused(self):
        path = self.folder / "ids.json"
        for text in (
            "",
            "[",
            "{}",
            "[1.5]",
            "[-1]",
            "[49152]",
            "[99999999999999999999]",
            '["a"]',
            "[]",
        ):
            with self.subTest(text=text):
                path.write_text(text)
                outcome = self.ashlar.call(
                    "run", "--model", ARGS.model, "--prompt-ids", path, "--max-tokens", "1"
                )
                self.assertIn(outcome.code, (FAILED, USAGE), outcome.stderr)
                self.assertEqual(outcome.stdout, "")
                self.assertTrue(outcome.stderr.strip())

    def test_unwritable_logits_file_is_refused(self):
        path = self.folder / "no" / "such" / "folder" / "logits.f32"
        self.assert_refused(
            self.run_prompt("--max-tokens", "0", "--logits-out", path), FAILED, str(path)
        )

    # inspect

    def test_inspect_json_tells_geometry(self):
        outcome = self.ashlar.call("inspect", "--json", ARGS.model)
        self.assertEqual(outcome.code, OK, outcome.stderr)
        report = json.loads(outcome.stdout)
        wanted = {"layers": 30, "heads": 9, "kv_heads": 3, "head_dim": 64, "vocab": 49152}
        self.assertEqual({name: report["geometry"].get(name) for name in wanted}, wanted)
        presets = {"exact": 23040, "q8": 12240, "balanced": 9744, "small-model": 9360, "q4": 7248}
        raw = {"f32": 46080, "f16": 23040, "bf16": 23040}
        self.assertEqual(report["kv_bytes_per_token"], raw | presets)
        self.assertEqual(report["tensor_types"]["Q4_1"]["tensors"], 210)

    def test_inspect_refuses_what_is_no_model(self):
        path = self.folder / "letter.gguf"
        path.write_text("Dear reader")
        self.assert_refused(self.ashlar.call("inspect", "--json", path), FAILED, str(path))
        missing = self.folder / "missing.gguf"
        self.assert_refused(self.ashlar.call("inspect", missing), FAILED, str(missing))

    # bench

    def bench_cache(self, *arguments):
        return self.ashlar.call("bench", "cache", "--min-time-ms", "1", *arguments)

    def test_bench_json_is_one_object_per_line(self):
        outcome = self.bench_cache("--json", "--blocks", "10000,1000", "--policies", "lru,sieve")
        self.assertEqual(outcome.code, OK, outcome.stderr)
        self.assertEqual(outcome.stderr, "")
        rows = [json.loads(line) for line in outcome.stdout.splitlines()]
        for row in rows:
            self.assertIsInstance(row["name"], str)
            self.assertIsInstance(row["params"], dict)
            figures = {key: row[key] for key in row.keys() - {"name", "params"}}
            self.assertTrue(figures, row)
            for key, figure in figures.items():
                self.assertIsInstance(figure, (int, float), f"{row['name']} {key}")
        # Every operation at both sizes, the smaller first whatever the order they were given in.
        timed = [row for row in rows if "ns_per_block" in row or "ns_per_token" in row]
        for row in timed:
            self.assertGreater(row["ratio_to_limit"], 0, row)
            if row["params"]["blocks"] == 1000:
                self.assertEqual(row["ratio_to_smallest"], 1, row)
        names = {
            blocks: {row["name"] for row in timed if row["params"]["blocks"] == blocks}
            for blocks in (1000, 10000)
        }
        self.assertEqual(names[1000], names[10000])
        self.assertLessEqual({"allocate", "append", "free", "hit", "replace", "fork"}, names[1000])
        policies = [row["params"]["policy"] for row in rows if row["name"] == "replace"]
        self.assertEqual(policies, ["lru", "sieve"] * 2)
        lookups = [row for row in rows if row["name"] == "lookup"]
        self.assertEqual({row["params"]["blocks"] for row in lookups}, {10000})

    def test_bench_fragmentation_stays_below_its_bound(self):
        # Counts, not times: the same in every run.
        outcome = self.bench_cache("--json", "--only", "fragmentation")
        self.assertEqual(outcome.code, OK, outcome.stderr)
        rows = [json.loads(line) for line in outcome.stdout.splitlines()]
        self.assertEqual([row["params"]["reuse"] for row in rows], ["on", "off"])
        for row in rows:
            self.assertLess(row["peak_waste_share"], row["bound_share"])
            self.assertLess(row["bound_share"], 0.1)

    def test_bench_table_has_progress_on_stderr(self):
        outcome = self.bench_cache("--blocks", "1k", "--only", "free")
        self.assertEqual(outcome.code, OK, outcome.stderr)
        self.assertIn("ns_per_block", outcome.stdout)
        self.assertIn("1024 blocks", outcome.stderr)
        self.assertNotIn("fork", outcome.stdout)

    def test_bench_refuses_bad_flags(self):
        self.assert_refused(self.ashlar.call("bench"), USAGE)
        self.assert_refused(self.ashlar.call("bench", "weather"), USAGE, "subcommand")
        for flag, value in (
            ("--blocks", "0"),
            ("--blocks", "511"),
            ("--blocks", "4000001"),
            ("--blocks", "-5"),
            ("--blocks", "many"),
            ("--blocks", "99999999999999999999"),
            ("--blocks", ",".join(["1000"] * 17)),
            ("--policies", "random"),
            ("--min-time-ms", "0"),
            ("--min-time-ms", "60001"),
            ("--min-time-ms", "-1"),
            ("--min-time-ms", "soon"),
            ("--only", "everything"),
        ):
            with self.subTest(flag=flag, value=value):
                outcome = self.ashlar.call("bench", "cache", "--json", f"{flag}={value}")
                self.assert_refused(outcome, USAGE, value if flag == "--policies" else flag)

    def test_bench_limits_gives_every_limit_for_every_number_of_threads(self):
        outcome = self.ashlar.call("bench", "limits", "--quick", "--json", "--threads", "2")
        self.assertEqual(outcome.code, OK, outcome.stderr)
        rows = [json.loads(line) for line in outcome.stdout.splitlines()]
        units = {
            "read": "gb_per_s",
            "f16_fma_read": "gb_per_s",
            "int8_read": "gb_per_s",
            "f32_fma": "gflop_per_s",
            "int8_dot": "gop_per_s",
            "exp": "gexp_per_s",
        }
        self.assertEqual(
            [(row["params"]["threads"], row["name"]) for row in rows],
            [(threads, name) for threads in (1, 2) for name in units],
        )
        for row in rows:
            self.assertGreater(row[units[row["name"]]], 0)

    def test_bench_matmul_gives_a_figure_for_every_format_and_number_of_rows(self):
        command = ("bench", "matmul", "--quick", "--json", "--threads", "2", "--rows", "1,512")
        outcome = self.ashlar.call(*command, "--type", "F16,Q4_K,MXFP4")
        self.assertEqual(outcome.code, OK, outcome.stderr)
        rows = [json.loads(line) for line in outcome.stdout.splitlines()]
        self.assertEqual(
            [(row["params"]["dtype"], row["name"], row["params"]["limit"]) for row in rows],
            [
                ("F16", "decode", "read"),
                ("F16", "prefill", "f32_fma"),
                ("Q4_K", "decode", "read"),
                ("Q4_K", "prefill", "int8_dot"),
                ("MXFP4", "decode", "read"),
                ("MXFP4", "prefill", "int8_dot"),
            ],
        )
        for row in rows:
            self.assertGreater(row["ratio_to_limit"], 0)

    def test_bench_limits_prints_a_column_for_every_number_of_threads(self):
        outcome = self.ashlar.call("bench", "limits", "--quick", "--threads", "2")
        self.assertEqual(outcome.code, OK, outcome.stderr)
        self.assertIn("1 thread ", outcome.stdout)
        self.assertIn("2 threads", outcome.stdout)

    def test_bench_attention_measures_each_case_beside_its_limit(self):
        outcome = self.ashlar.call(
            "bench",
            "attention",
            "--quick",
            "--json",
            *("--geometry", "9q3kv64,4q1kv256"),
            *("--context", "256,1k"),
            *("--codec", "f16", "bf16"),
        )
        self.assertEqual(outcome.code, OK, outcome.stderr)
        rows = [json.loads(line) for line in outcome.stdout.splitlines()]
        kinds = [(row["name"], row["params"].get("prefix")) for row in rows]
        once = [("decode", None)] * 2 + [("batch", "private"), ("batch", "shared")] * 2
        self.assertEqual(kinds, (once + [("prefill", None)] * 2) * 4)
        for row in rows:
            params = row["params"]
            self.assertGreater(row["ratio_to_limit"], 0)
            self.assertGreater(row["tokens_per_s"], 0)
            if row["name"] == "prefill":
                self.assertEqual(params["limit"], "f32_fma")
                self.assertGreater(row["gflop_per_s"], 0)
                continue
            limit = "f16_fma_read" if params["codec"] == "f16" else "read"
            self.assertEqual(params["limit"], limit)
            # 2 bytes x K and V x kv heads x head_dim x layers, for each token that is read.
            token_bytes = {"9q3kv64": 23040, "4q1kv256": 18432}[params["geometry"]]
            own = 16 if row["name"] == "batch" else 0
            self.assertEqual(params["sequences"], 16 if own else 1)
            one_sequence = token_bytes * (params["context"] + own)
            self.assertEqual(
                row["kv_read_bytes"], one_sequence * row["kv_read_ratio_to_one_sequence"]
            )

    def test_bench_attention_table_has_a_head_for_each_geometry(self):
        outcome = self.ashlar.call(
            "bench", "attention", "--quick", "--context", "256", "--case", "decode,prefill"
        )
        self.assertEqual(outcome.code, OK, outcome.stderr)
        self.assertEqual(outcome.stdout.count("share"), 4)
        self.assertEqual(outcome.stdout.count("decode"), 4)
        self.assertNotIn("batch", outcome.stdout)

    def test_bench_attention_says_what_does_not_fit(self):
        command = ("bench", "attention", "--quick", "--json", "--geometry", "9q3kv64")
        # A layer of one sequence takes 3 MiB, of 16 of them 48.75 MiB.
        partly = self.ashlar.call(*command, "--context=4k", "--memory=16MiB", "--case=decode,batch")
        self.assertEqual(partly.code, OK, partly.stderr)
        self.assertEqual(json.loads(partly.stdout)["params"]["layers_held"], 5)
        self.assertIn("left out: batch", partly.stderr)
        nothing = self.ashlar.call(*command, "--memory=1KiB")
        self.assert_refused(nothing, FAILED, "--memory")

    def test_bench_of_kernels_refuses_bad_flags(self):
        for part, flag, value in (
            ("limits", "--threads", "257"),
            ("limits", "--isa", "mmx"),
            ("matmul", "--type", "Q4_9"),
            ("matmul", "--rows", "0"),
            ("matmul", "--rows", "513"),
            ("matmul", "--activations", "int4"),
            ("matmul", "--min-time-ms", "0"),
            ("attention", "--threads", "257"),
            ("attention", "--isa", "mmx"),
            ("attention", "--geometry", "9q4kv64"),
            ("attention", "--case", "training"),
            ("attention", "--context", "0"),
            ("attention", "--context", "300"),
            ("attention", "--context", "2m"),
            ("attention", "--context", ",".join(["1k"] * 17)),
            ("attention", "--codec", "q99"),
            ("attention", "--codec", "k=f16"),
            ("attention", "--codec", "k=f16,v="),
            ("attention", "--block-tokens", "0"),
            ("attention", "--block-tokens", "24"),
            ("attention", "--memory", "lots"),
            ("attention", "--min-time-ms", "0"),
            ("attention", "--min-time-ms", "60001"),
        ):
            with self.subTest(part=part, flag=flag, value=value):
                outcome = self.ashlar.call("bench", part, "--quick", "--json", f"{flag}={value}")
                words = {"--isa": value, "--block-tokens": "block tokens"}.get(flag, flag[2:])
                self.assert_refused(outcome, USAGE, words)


def main():
    global ARGS
    ARGS, rest = ashlar_cli.parser(__doc__).parse_known_args()
    ashlar_cli.AshlarTest.binary = ARGS.binary
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
