#!/usr/bin/env bash
# Builds the fuzzers and runs them, one after another.
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]
#
# SECONDS: for each target (60 when not given; 0 only runs the seeds and what earlier runs found).
# TARGET: the part of fuzz/<TARGET>_fuzz.cc before _fuzz; all when not given.
#
# Inputs that reach new code are kept in build/fuzz/corpus/TARGET, those that fail in
# build/fuzz/findings/TARGET. Exit: 0 nothing found, 1 a finding or a failed build, 2 wrong usage.
set -euo pipefail
cd "$(dirname "$0")/.."

# Slower or larger than this is a finding: inputs are at most 16 KiB.
readonly max_input_bytes=16384 max_input_seconds=10 max_memory_mib=1024

usage() {
  echo "fuzz: $1" >&2
  echo "usage: scripts/fuzz.sh [SECONDS [TARGET...]]; targets: ${known[*]}" >&2
  exit 2
}

known=()
for source in fuzz/*_fuzz.cc; do
  name=${source#fuzz/}
  known+=("${name%_fuzz.cc}")
done

seconds=${1:-60}
[[ $seconds =~ ^[0-9]+$ ]] || usage "'$seconds' is not a whole number of seconds"
targets=("${@:2}")
if ((${#targets[@]} == 0)); then targets=("${known[@]}"); fi
for target in "${targets[@]}"; do
  [[ -f fuzz/${target}_fuzz.cc ]] || usage "there is no target '$target'"
done

if ! command -v clang++-19 > /dev/null; then
  echo "fuzz: clang++-19 is missing (Debian: clang-19 and libclang-rt-19-dev)" >&2
  exit 1
fi
mkdir -p build
cmake --preset fuzz > build/fuzz-configure.log 2>&1 || { cat build/fuzz-configure.log >&2; exit 1; }
cmake --build --preset fuzz --parallel "${JOBS:-$(nproc)}" --target "${targets[@]/%/_fuzz}"

failed=()
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  findings=build/fuzz/findings/$target
  mkdir -p "$corpus" "$findings"
  inputs=("$corpus")
  if [[ -d fuzz/corpus/$target ]]; then inputs+=("fuzz/corpus/$target"); fi
  options=(-max_len=$max_input_bytes -timeout=$max_input_seconds -rss_limit_mb=$max_memory_mib
    -artifact_prefix="$findings/" -print_final_stats=1)
  if [[ -f fuzz/$target.dict ]]; then options+=(-dict="fuzz/$target.dict"); fi
  if ((seconds > 0)); then options+=(-max_total_time="$seconds"); else options+=(-runs=0); fi
  echo "=== $target: $seconds s"
  if ! "build/fuzz/bin/${target}_fuzz" "${options[@]}" "${inputs[@]}"; then
    failed+=("$target")
    echo "=== $target: FOUND something; the input is in $findings, run it again with" >&2
    echo "    build/fuzz/bin/${target}_fuzz $findings/<input>" >&2
  fi
done

if ((${#failed[@]} > 0)); then
  echo "fuzz: findings in: ${failed[*]}" >&2
  exit 1
fi
echo "fuzz: nothing found in ${#targets[@]} target(s), $seconds s each"
