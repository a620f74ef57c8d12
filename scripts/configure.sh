#!/usr/bin/env bash
# configure.sh PRESET [CMAKE_ARG...]: configures build/PRESET, with what this machine needs to be told.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

main() {
  [[ $# -ge 1 ]] || die "usage: scripts/configure.sh PRESET [CMAKE_ARG...]"
  local preset="$1"
  shift
  local private_boost="$project_root/build/deps/boost/usr"
  if [[ -d "$private_boost" ]]; then
    set -- "-DCMAKE_PREFIX_PATH=$private_boost" "$@"
  fi
  cd "$project_root"
  # CMake reads CXX on the first configure only. Distributions of one compiler keep results comparable.
  CXX="${CXX:-g++-12}" cmake --preset "$preset" "$@" >&2
}

main "$@"
