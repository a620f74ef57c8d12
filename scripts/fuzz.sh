#!/usr/bin/env bash
# fuzz.sh [SECONDS [TARGET...]]: builds the fuzzers and runs them, one after another, SECONDS each (60
# when not given; 0: only the seeds and what earlier runs found). TARGET: the part of
# fuzz/<TARGET>_fuzz.cc before _fuzz; all when not given.
# Inputs that reach new code are kept in build/fuzz/corpus/TARGET, those that fail in
# build/fuzz/findings/TARGET. Fails on a finding, after all targets ran.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# An input of at most so many bytes that needs more than this is a finding.
readonly max_input_bytes=16384 max_input_s=10 max_memory_mib=1024

# The names of all targets.
known_targets() {
  local source
  for source in fuzz/*_fuzz.cc; do
    source=${source#fuzz/}
    echo "${source%_fuzz.cc}"
  done
}

build() {
  local log=build/fuzz-configure.log
  command -v clang++-19 >/dev/null || die "clang++-19 is missing: scripts/install.sh fuzz"
  mkdir -p build
  cmake --preset fuzz >"$log" 2>&1 || { cat "$log" >&2 && die "cmake --preset fuzz failed"; }
  cmake --build --preset fuzz -j "$(cores)" --target "${@/%/_fuzz}" ||
    die "the fuzzers did not build"
}

# run_one TARGET SECONDS
run_one() {
  local target=$1 seconds=$2
  local corpus=build/fuzz/corpus/$target findings=build/fuzz/findings/$target
  local inputs=("$corpus")
  local options=("-max_len=$max_input_bytes" "-timeout=$max_input_s" "-rss_limit_mb=$max_memory_mib"
    -artifact_prefix="$findings/" -print_final_stats=1)
  mkdir -p "$corpus" "$findings"
  [[ ! -d fuzz/corpus/$target ]] || inputs+=("fuzz/corpus/$target")
  [[ ! -f fuzz/$target.dict ]] || options+=(-dict="fuzz/$target.dict")
  if [[ $seconds -gt 0 ]]; then options+=(-max_total_time="$seconds"); else options+=(-runs=0); fi
  say "=== $target, $seconds s"
  "build/fuzz/bin/${target}_fuzz" "${options[@]}" "${inputs[@]}" && return 0
  say "=== $target: a finding. Its input is in $findings; to run it again:"
  say "    build/fuzz/bin/${target}_fuzz $findings/INPUT"
  return 1
}

main() {
  cd "$project_root"
  local seconds=${1:-60} targets=("${@:2}") failed=() target
  [[ $seconds =~ ^[0-9]+$ ]] || die "'$seconds' is no number of seconds: see the top of scripts/fuzz.sh"
  [[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(known_targets)
  for target in "${targets[@]}"; do
    [[ -f fuzz/${target}_fuzz.cc ]] ||
      die "there is no target '$target': it is one of $(known_targets | xargs)"
  done
  build "${targets[@]}"
  for target in "${targets[@]}"; do
    run_one "$target" "$seconds" || failed+=("$target")
  done
  [[ ${#failed[@]} -eq 0 ]] || die "findings in: ${failed[*]}"
  say "nothing found: ${targets[*]}, $seconds s each"
}

main "$@"
