#!/usr/bin/env bash
# check_format.sh [--fix]: fails when a C++ file is not as clang-format leaves it, and shows the
# difference; --fix formats in place.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly max_shown_lines=20 # of each file's difference

# Prints the difference formatting would make to a file; fails if there is any.
check_one() {
  local difference
  difference="$(clang-format-19 "$1" | diff -u --label "$1" --label "$1, formatted" "$1" - |
    head -n "$max_shown_lines")" || true
  [[ -z "$difference" ]] || { printf '%s\n' "$difference" && return 1; }
}

main() {
  command -v clang-format-19 >/dev/null ||
    die "clang-format-19 is missing: scripts/install.sh analysis"
  cd "$project_root"
  if [[ "${1:-}" == --fix ]]; then
    cpp_files '*.h' '*.cc' | xargs -0 -r -P "$(cores)" -n 16 clang-format-19 -i
  elif [[ $# -eq 0 ]]; then
    export -f check_one && export max_shown_lines
    # shellcheck disable=SC2016
    cpp_files '*.h' '*.cc' | xargs -0 -r -P "$(cores)" -n 1 bash -c 'check_one "$1"' check_one ||
      die "these files are not formatted: run 'make format'"
  else
    die "usage: scripts/check_format.sh [--fix]"
  fi
}

main "$@"
