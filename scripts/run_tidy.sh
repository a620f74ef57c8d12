#!/usr/bin/env bash
# run_tidy.sh [--changed[=BASE]] [--limit SECONDS] [PATH...]: clang-tidy (.clang-tidy) on our sources; any
# warning fails. Default: every source that build/release compiles. --changed: those that differ from BASE
# (main). PATH...: sources below these. A source found clean is remembered until it, a header of ours or
# the configuration changes. --limit: past it no further source is started, and that is a failure.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly build=build/release

parse() {
  changed_since='' limit_s=0 paths=()
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --changed) changed_since=main ;;
      --changed=*) changed_since="${1#*=}" ;;
      --limit) limit_s="${2:?--limit takes seconds}" && shift ;;
      -*) die "unknown flag $1: see the top of scripts/run_tidy.sh" ;;
      *) paths+=("${1%/}") ;;
    esac
    shift
  done
}

# The sources that the build compiles, by their path from the root.
compiled_sources() {
  "$system_python" - "$build/compile_commands.json" "$project_root/" <<'PYTHON'
import json, sys
files = {entry["file"] for entry in json.load(open(sys.argv[1]))}
print(*sorted(f.removeprefix(sys.argv[2]) for f in files if f.startswith(sys.argv[2])), sep="\n")
PYTHON
}

# Keeps of the sources on stdin those that were asked for.
selected() {
  if [[ -n "$changed_since" ]]; then
    { git diff --name-only "$changed_since" && git ls-files --others --exclude-standard; } |
      sort -u | comm -12 - <(sort)
  elif [[ ${#paths[@]} -gt 0 ]]; then
    local source path
    while read -r source; do
      for path in "${paths[@]}"; do
        [[ "$source" != "$path" && "$source" != "$path"/* ]] || echo "$source"
      done
    done
  else
    cat
  fi
}

# Checks one source: prints what is wrong, or remembers that nothing is.
check_one() {
  local source="$1" state="$2" deadline="$3" output
  local stamp="$build/tidy/$source.$state"
  [[ ! -e "$stamp" ]] || return 0
  if [[ "$deadline" -gt 0 && "$(date +%s)" -ge "$deadline" ]]; then
    echo "$source:1: error: not checked, out of time"
    return 1
  fi
  if ! output="$(clang-tidy-19 --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-deprecated-declarations \
    "$source" 2>/dev/null)"; then
    printf '%s\n' "${output:-$source:1: error: clang-tidy failed}"
    return 1
  fi
  mkdir -p "${stamp%/*}"
  rm -f "$build/tidy/$source".*
  touch "$stamp"
}

# A header's faults show in every source that includes it: pass each on once.
once_each() {
  awk '/: (error|warning): / { seen = shown[$0]++ } !seen'
}

main() {
  parse "$@"
  cd "$project_root"
  command -v clang-tidy-19 >/dev/null || die "clang-tidy-19 is missing: scripts/install.sh analysis"
  [[ -e "$build/compile_commands.json" ]] || die "configure first: cmake --preset release"
  local deadline=0 state
  [[ "$limit_s" -eq 0 ]] || deadline=$(($(date +%s) + limit_s))
  export -f check_one && export build
  # What every source's result depends on; the source itself is added below.
  state="$(cpp_files '*.h' | xargs -0 -r cat .clang-tidy | sha256sum)"
  # shellcheck disable=SC2016
  compiled_sources | selected | while read -r source; do
    printf '%s\0%s\0%s\0' "$source" "$({ echo "$state" && cat "$source"; } | sha256sum | cut -c1-16)" \
      "$deadline"
  done | xargs -0 -r -n 3 -P "$(cores)" bash -c 'check_one "$@"' check_one | once_each ||
    die "clang-tidy found faults: mend them; docs/STYLE.md says how to answer a false alarm"
}

main "$@"
