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
