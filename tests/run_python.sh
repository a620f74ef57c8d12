#!/usr/bin/env bash
# run_python.sh SCRIPT [ARGUMENT...]: a Python test with the interpreter that has its packages:
# $ASHLAR_TEST_PYTHON, or the one that scripts/test_venv.sh made.
set -Eeuo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="${ASHLAR_TEST_PYTHON:-$root/build/test-venv/bin/python}"
if [[ ! -x "$python" ]]; then
  echo "no Python for tests at $python: run scripts/test_venv.sh, or set ASHLAR_TEST_PYTHON" >&2
  exit 1
fi
exec "$python" -B "$@"
