#!/usr/bin/env python3
"""The cache's decisions beside those of vLLM and SGLang: the same work, as a ratio.

compare_managers.py --ashlar build/release/bin/ashlar --vllm TREE --sglang TREE

TREE is a checkout of the project's sources. What is measured is their own Python code, as it is in
the tree and as their schedulers call it:

  vLLM    vllm/v1/core/kv_cache_manager.py (KVCacheManager) and all of vllm/v1/core under it
  SGLang  python/sglang/srt/mem_cache/radix_cache.py (RadixCache)

Everything else they import is replaced by empty stand-ins, so nothing of them needs to be installed.
Two stand-ins do something: a request of vLLM (a record of its tokens and hashes; the hashes are
vLLM's own code, with its default hash, SHA-256), and, where torch is not installed, SGLang's tensors
of slot numbers (arrays of the standard library). SGLang's allocator of pages needs torch and a GPU:
it is left out, which favours SGLang.

Peer and ours take turns; a ratio is the median over the pairs of (peer / ours). Times are ns per
block of 16 tokens, or ms per prompt.
"""

import argparse
import gc
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from array import array
from pathlib import Path

from import_alone import Finder, stand_in_for_torch, stub_if_missing

BLOCK_TOKENS = 16
SEQUENCE_BLOCKS = 64  # as `ashlar bench cache` has them
LONG_BLOCKS = 8192
MAX_ROUNDS = 2000  # of a hit each takes a block from the older half of the texts: not all of them
CHUNK_TOKENS = 8192  # SGLang inserts a long prompt in pieces of its chunked prefill


def texts(blocks, number):
    """A text that differs from all others from its first token on."""
    tokens = [(7919 * i) % 100_000 for i in range(blocks * BLOCK_TOKENS + 1)]
    tokens[0] = 1_000_000 + number
    return tokens


def repeat(seconds, body):
    """The median of body(i), which times itself, over 5 to MAX_ROUNDS calls."""
    body(0)
    samples = []
    end = time.perf_counter() + seconds
    while len(samples) < 5 or (len(samples) < MAX_ROUNDS and time.perf_counter() < end):
        samples.append(body(1 + len(samples)))
    return statistics.median(samples)


class Vllm:
    MODULES = [
        "vllm.utils.hashing",
        "vllm.utils.math_utils",
        "vllm.v1.core.block_pool",
        "vllm.v1.core.kv_cache_coordinator",
        "vllm.v1.core.kv_cache_manager",
        "vllm.v1.core.kv_cache_metrics",
        "vllm.v1.core.kv_cache_utils",
        "vllm.v1.core.single_type_kv_cache_manager",
        "vllm.v1.kv_cache_interface",
    ]

    class Request:
        """The fields of vLLM's Request that its manager reads."""

        def __init__(self, request_id, tokens, hasher):
            self.request_id = request_id
            self.all_token_ids = tokens
            self.num_tokens = self.num_prompt_tokens = len(tokens)
            self.num_computed_tokens = 0
            self.num_preemptions = 0
            self.skip_reading_prefix_cache = False
            self.lora_request = self.cache_salt = self.prompt_embeds = None
            self.mm_features = []
            self.block_hashes = []
            if hasher:
                self.block_hashes = hasher(self)

    def __init__(self, tree, blocks, seconds):
        sys.meta_path.insert(0, Finder("vllm", Path(tree), self.MODULES))
        stub_if_missing("cbor2", "typing_extensions")
        import vllm.utils.hashing as hashing
        import vllm.v1.core.kv_cache_manager as manager
        import vllm.v1.core.kv_cache_utils as utils
        import vllm.v1.kv_cache_interface as interface

        utils.init_none_hash(hashing.sha256)
        self.hasher = utils.get_request_block_hasher(BLOCK_TOKENS, hashing.sha256)
        self.manager, self.interface = manager, interface
        self.blocks, self.seconds = blocks, seconds
        self.number = 0

    def make(self, enable_caching):
        spec = self.interface.FullAttentionSpec(
            block_size=BLOCK_TOKENS, num_kv_heads=1, head_size=8, dtype=None, head_size_v=8
        )
        config = self.interface.KVCacheConfig(
            num_blocks=self.blocks + 1,  # its null block
            kv_cache_tensors=[],
            kv_cache_groups=[self.interface.KVCacheGroupSpec(["layer"], spec)],
        )
        return self.manager.KVCacheManager(
            config,
            max_model_len=1 << 20,
            hash_block_size=BLOCK_TOKENS,
            enable_caching=enable_caching,
        )

    def request(self, tokens, hasher):
        self.number += 1
        return self.Request(str(self.number), tokens, hasher)

    @staticmethod
    def admit(cache, request):
        """As the scheduler does; the number of tokens that were hit."""
        hit, count = cache.get_computed_blocks(request)
        new = request.num_tokens - count
        if cache.allocate_slots(request, new, count, hit) is None:
            raise RuntimeError("vLLM had no room")
        return count

    def fill(self, cache, sequence_blocks):
        count = self.blocks // sequence_blocks
        for number in range(count):
            request = self.request(texts(sequence_blocks, number)[:-1], self.hasher)
            self.admit(cache, request)
            cache.free(request)
        return count

    def measure(self):
        return {
            "cycle": self.cycle(),
            "replace": self.replace(),
            "hit": self.hit(),
            **self.lookup(),
        }

    def cycle(self):
        cache = self.make(enable_caching=False)
        tokens = texts(SEQUENCE_BLOCKS, 0)[:-1]
        live = []
        while len(live) < self.blocks // SEQUENCE_BLOCKS // 2:
            live.append(self.request(tokens, None))
            self.admit(cache, live[-1])

        def body(i):
            place = (i * 7919) % len(live)
            request = self.request(tokens, None)
            start = time.perf_counter_ns()
            cache.free(live[place])
            self.admit(cache, request)
            ns = time.perf_counter_ns() - start
            live[place] = request
            return ns / SEQUENCE_BLOCKS

        return repeat(self.seconds, body)

    def replace(self):
        cache = self.make(enable_caching=True)
        count = self.fill(cache, SEQUENCE_BLOCKS)

        def body(i):
            tokens = texts(SEQUENCE_BLOCKS, count + i)[:-1]
            start = time.perf_counter_ns()
            request = self.request(tokens, self.hasher)
            hit = self.admit(cache, request)
            cache.free(request)
            ns = time.perf_counter_ns() - start
            assert hit == 0
            return ns / SEQUENCE_BLOCKS

        return repeat(self.seconds, body)

    def hit(self):
        cache = self.make(enable_caching=True)
        count = self.fill(cache, SEQUENCE_BLOCKS) - 1

        def body(i):
            # The newer half: each round's one new block replaces a block of the older.
            request = self.request(texts(SEQUENCE_BLOCKS, count - i % (count // 2)), self.hasher)
            start = time.perf_counter_ns()
            hit = self.admit(cache, request)
            cache.free(request)
            ns = time.perf_counter_ns() - start
            assert hit == SEQUENCE_BLOCKS * BLOCK_TOKENS, hit
            return ns / SEQUENCE_BLOCKS

        return repeat(self.seconds, body)

    def lookup(self):
        cache = self.make(enable_caching=True)
        count = self.fill(cache, LONG_BLOCKS)
        known = [self.request(texts(LONG_BLOCKS, n), self.hasher) for n in range(count)]

        def body(i, hasher=None):
            request = known[i % count]
            tokens = list(request.all_token_ids)
            start = time.perf_counter_ns()
            if hasher:
                request = self.request(tokens, hasher)
            _, hit = cache.get_computed_blocks(request)
            ns = time.perf_counter_ns() - start
            assert hit == LONG_BLOCKS * BLOCK_TOKENS, hit
            return ns * 1e-6

        return {
            "lookup known": repeat(self.seconds, body),
            "lookup sha256": repeat(self.seconds, lambda i: body(i, self.hasher)),
        }


class Sglang:
    MODULES = [
        f"sglang.srt.mem_cache.{name}"
        for name in (
            "base_prefix_cache",
            "cache_init_params",
            "events",
            "evict_policy",
            "radix_cache",
            "session_radix_cache",
            "utils",
        )
    ]

    class Allocator:
        """Counts; SGLang's own writes to tensors of free pages."""

        device = "cpu"

        def __init__(self, tokens):
            self.free_tokens = tokens

        def alloc(self, tokens):
            self.free_tokens -= tokens

        def free(self, indices):
            self.free_tokens += len(indices)

    def __init__(self, tree, blocks, seconds):
        folder = Path(tree) / "python"
        sys.meta_path.insert(0, Finder("sglang", folder, self.MODULES))
        import sglang.srt.mem_cache.base_prefix_cache as base
        import sglang.srt.mem_cache.cache_init_params as params
        import sglang.srt.mem_cache.radix_cache as radix
        import torch

        self.base, self.params, self.radix, self.torch = base, params, radix, torch
        self.blocks, self.seconds = blocks, seconds

    def make(self):
        self.allocator = self.Allocator(self.blocks * BLOCK_TOKENS)
        return self.radix.RadixCache(
            self.params.CacheInitParams(
                disable=False,
                req_to_token_pool=None,
                token_to_kv_pool_allocator=self.allocator,
                page_size=BLOCK_TOKENS,
            )
        )

    def key(self, tokens):
        return self.radix.RadixKey(array("q", tokens))

    def match(self, cache, key):
        return cache.match_prefix(self.base.MatchPrefixParams(key=key))

    def store(self, cache, key, slots):
        """Evicts what is needed, and inserts: a request that ends."""
        missing = len(key) - self.allocator.free_tokens
        if missing > 0:
            cache.evict(self.base.EvictParams(num_tokens=missing))
        self.allocator.alloc(len(key))
        return cache.insert(self.base.InsertParams(key=key, value=slots))

    def fill(self, cache, sequence_blocks):
        count = self.blocks // sequence_blocks
        slots = self.torch.tensor(range(sequence_blocks * BLOCK_TOKENS), dtype=self.torch.int64)
        for number in range(count):
            tokens = texts(sequence_blocks, number)[:-1]
            self.allocator.alloc(len(tokens))
            for end in range(0, len(tokens), CHUNK_TOKENS):
                end = min(end + CHUNK_TOKENS, len(tokens))
                cache.insert(
                    self.base.InsertParams(key=self.key(tokens[:end]), value=slots[:end])
                )
        return count

    def measure(self):
        return {"replace": self.replace(), "hit": self.hit(), **self.lookup()}

    def replace(self):
        cache = self.make()
        count = self.fill(cache, SEQUENCE_BLOCKS)
        slots = self.torch.tensor(range(SEQUENCE_BLOCKS * BLOCK_TOKENS), dtype=self.torch.int64)

        def body(i):
            key = self.key(texts(SEQUENCE_BLOCKS, count + i)[:-1])
            start = time.perf_counter_ns()
            found = self.match(cache, key)
            cache.inc_lock_ref(found.last_device_node)
            self.store(cache, key, slots)
            cache.dec_lock_ref(found.last_device_node)
            ns = time.perf_counter_ns() - start
            assert len(found.device_indices) == 0
            return ns / SEQUENCE_BLOCKS

        return repeat(self.seconds, body)

    def hit(self):
        cache = self.make()
        count = self.fill(cache, SEQUENCE_BLOCKS)

        def body(i):
            key = self.key(texts(SEQUENCE_BLOCKS, (i * 7919) % count))
            start = time.perf_counter_ns()
            found = self.match(cache, key)
            cache.inc_lock_ref(found.last_device_node)
            cache.dec_lock_ref(found.last_device_node)
            ns = time.perf_counter_ns() - start
            assert len(found.device_indices) == SEQUENCE_BLOCKS * BLOCK_TOKENS
            return ns / SEQUENCE_BLOCKS

        return repeat(self.seconds, body)

    def lookup(self):
        cache = self.make()
        count = self.fill(cache, LONG_BLOCKS)
        keys = [self.key(texts(LONG_BLOCKS, number)) for number in range(count)]

        def body(i):
            start = time.perf_counter_ns()
            found = self.match(cache, keys[i % count])
            ns = time.perf_counter_ns() - start
            assert len(found.device_indices) == LONG_BLOCKS * BLOCK_TOKENS
            return ns * 1e-6

        return {"lookup computed": repeat(self.seconds, body)}


class Ashlar:
    def __init__(self, program, blocks, seconds):
        self.command = [program, "bench", "cache", "--json", "--policies", "lru"]
        self.command += ["--blocks", str(blocks), "--min-time-ms", str(round(seconds * 1000))]

    def rows(self, name):
        done = subprocess.run([*self.command, "--only", name], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(self.command)}: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def one(self, name, figure, **params):
        for row in self.rows(name):
            if row["name"] == name and params.items() <= row["params"].items():
                return row[figure]
        return None

    def measure(self):
        lookups = {
            row["params"]["keys"]: row["ms_per_prompt"]
            for row in self.rows("lookup")
            if row["params"].get("how") == "probe"
        }
        hit = self.one("hit", "ns_per_block", text="cold", hashes="known")
        release = self.one("release", "ns_per_block", text="cold")
        return {
            "cycle": self.one("cycle", "ns_per_block", reuse="off"),
            "replace": self.one("replace", "ns_per_block"),
            "hit": hit + release,
            **{f"lookup {keys}": ms for keys, ms in lookups.items()},
        }


MEANING = {
    "cycle": "take, seal and give back, no reuse",
    "replace": "a new text into a full cache, per block",
    "hit": "a known text of 64 blocks: found, held, given back, per block",
    "lookup known": "131,072 tokens, all hit, keys known",
    "lookup computed": "131,072 tokens, all hit, from tokens alone",
    "lookup sha256": "131,072 tokens, all hit, SHA-256 keys computed",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ashlar", default="build/release/bin/ashlar", help="the program")
    parser.add_argument("--vllm", help="tree of vLLM's sources")
    parser.add_argument("--sglang", help="tree of SGLang's sources")
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each figure")
    parser.add_argument("--json", action="store_true", help="one object per line")
    args = parser.parse_args()
    if not args.vllm and not args.sglang:
        parser.error("nothing to compare with: give --vllm TREE or --sglang TREE")
    if not LONG_BLOCKS <= args.blocks <= 4_000_000 or args.pairs < 1:
        parser.error(f"--blocks must be {LONG_BLOCKS} to 4000000 and --pairs at least 1")

    if importlib.util.find_spec("torch") is None:
        stand_in_for_torch()
    peers = {}
    if args.vllm:
        peers["vLLM"] = Vllm(args.vllm, args.blocks, args.seconds)
    if args.sglang:
        peers["SGLang"] = Sglang(args.sglang, args.blocks, args.seconds)
    ours = Ashlar(args.ashlar, args.blocks, args.seconds)
    gc.disable()  # as a benchmark of the peers at their best
    runs = []
    for number in range(args.pairs):
        print(f"pair {number + 1} of {args.pairs} ...", file=sys.stderr)
        runs.append(({name: peer.measure() for name, peer in peers.items()}, ours.measure()))
        gc.collect()
    for name in peers:
        for figure in MEANING:
            if figure not in runs[0][0][name]:
                continue
            pairs = [(theirs[name][figure], mine[figure]) for theirs, mine in runs]
            print_row(name, figure, pairs, args)


def print_row(peer, figure, pairs, args):
    unit = "ms_per_prompt" if figure.startswith("lookup") else "ns_per_block"
    ratios = [theirs / mine for theirs, mine in pairs]
    theirs, mine = (statistics.median(side) for side in zip(*pairs))
    ratio, low, high = statistics.median(ratios), min(ratios), max(ratios)
    if args.json:
        row = {
            "name": figure,
            "params": {"peer": peer, "blocks": args.blocks},
            f"peer_{unit}": theirs,
            f"ashlar_{unit}": mine,
            "peer_to_ashlar_ratio": ratio,
            "ratios": ratios,
        }
        print(json.dumps(row))
    else:
        times = f"{theirs:10.4g} {mine:10.4g} {unit:14}"
        print(f"{peer:7} {times} {ratio:7.1f}x ({low:.1f} to {high:.1f})  {MEANING[figure]}")


if __name__ == "__main__":
    main()
