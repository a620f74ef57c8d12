# shellcheck shell=bash disable=SC2034
# Sourced by the other scripts: strict mode, where the project lies, and how a script speaks.
# Messages go to stderr; stdout belongs to results.
set -Eeuo pipefail

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# A command that fails unforeseen ends the script, and not in silence.
trap 'say "error: ${BASH_SOURCE[0]##*/}:$LINENO: this failed: $BASH_COMMAND"' ERR

project_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# Debian's python3: another may come first on PATH and lack the modules that Debian packages bring.
system_python=/usr/bin/python3

size_of() { stat -c %s "$1" 2>/dev/null || echo 0; }

# Prints the address of file $2 of Python package $1, as pip's index tells it. Downloads nothing.
index_url() {
  "$system_python" -m pip index versions "$1" -vv 2>&1 </dev/null |
    sed -n "s|^ *Found link \\([^ #]*/$2\\)[ #].*|\\1|p" | head -n 1
}

# The certificate bundle pip was told to trust, for curl to trust the same.
pip_certificates() { "$system_python" -m pip config get global.cert 2>/dev/null </dev/null || true; }

cores() { nproc 2>/dev/null || echo 1; }

# Our C++ files whose names match one of the patterns ('*.h'), each ended by a zero byte.
cpp_files() {
  local folder folders=() names=()
  for folder in src include tests fuzz bench tools examples; do
    [[ ! -d "$project_root/$folder" ]] || folders+=("$folder")
  done
  for pattern in "$@"; do names+=(-o -name "$pattern"); done
  (cd "$project_root" && find "${folders[@]}" -type f \( "${names[@]:1}" \) -print0 | sort -z)
}
