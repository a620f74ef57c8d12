# shellcheck shell=bash disable=SC2034
# Sourced by the other scripts: strict mode, where the project lies, and how a script speaks.
# Messages go to stderr; stdout belongs to results.
set -euo pipefail

project_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '%s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Debian's python3: another one may come first on PATH and lack the modules that Debian packages bring.
system_python=/usr/bin/python3

cores() { nproc 2>/dev/null || echo 1; }
