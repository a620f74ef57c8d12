#!/usr/bin/env bash
# install.sh STEP...: installs the Debian 12 packages that a step needs and this machine lacks.
# A step installs only its own packages: building pulls no browser and no test tool.
# Run again, it installs nothing and asks for nothing.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/install.sh STEP...
  build      compiler, CMake, and the libraries the program links
  model      what fetching the default model needs (pip, curl)
  test       GoogleTest, and what the tests that drive the program from outside use: Python, nginx (unpacked
             inside build/, not installed)
  analysis   clang-format, clang-tidy
  fuzz       clang with libFuzzer
  bench      Google Benchmark
  cross      what building and testing the kernels for Arm needs: cross compiler, qemu, headers
  study      the books that KV codecs are measured on (tools/codec_study)
Uses sudo when not root. ASHLAR_SKIP_INSTALL=1 installs nothing (other systems: bring the equivalents).
TEXT
}

# A package belongs here when something of its step uses it, and leaves when nothing does.
packages_of() {
  case "$1" in
    build)
      echo g++ g++-12 cmake ninja-build ccache pkg-config
      echo libboost1.81-dev nlohmann-json3-dev libsimdjson-dev libcli11-dev libfmt-dev libspdlog-dev libhwy-dev
      echo libpcre2-dev libutf8proc-dev libssl-dev libxxhash-dev prometheus-cpp-dev libcurl4-openssl-dev libarchive-dev
      ;;
    model) echo python3 python3-pip ca-certificates curl ;;
    test) echo libgtest-dev libgmock-dev python3 python3-venv python3-jinja2 ca-certificates curl openssl nginx ;;
    analysis) echo clang-format-19 clang-tidy-19 ;;
    fuzz) echo clang-19 libclang-rt-19-dev ;;
    bench) echo libbenchmark-dev ;;
    cross)
      echo g++-12-aarch64-linux-gnu qemu-user-static cmake ninja-build ccache
      echo libfmt-dev libspdlog-dev libhwy-dev googletest
      ;;
    study) echo python3 bible-kjv bible-kjv-text jargon-text ;;
    *) return 1 ;;
  esac
}

is_installed() {
  [[ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" == ii* ]] && return 0
  [[ "$1" == libboost1.81-dev && -e "$private_boost/usr/include/boost/version.hpp" ]] && return 0
  [[ "$1" == nginx && -e "$private_nginx/usr/sbin/nginx" ]]
}

# Sets `missing` to the packages of the steps that are not installed.
find_missing() {
  local step package
  missing=()
  for step in "$@"; do
    for package in $(packages_of "$step"); do
      [[ " ${missing[*]-} " == *" $package "* ]] || is_installed "$package" || missing+=("$package")
    done
  done
}

# Runs a command as root, and shows it.
as_root() {
  if [[ $EUID -eq 0 ]]; then
    say "+ $*"
    "$@" </dev/null >&2
  elif command -v sudo >/dev/null; then
    say "+ sudo $*"
    sudo "$@" >&2
  else
    die "these packages are missing: ${missing[*]}
Installing them needs root, and there is no sudo here. As root, run:
  apt-get update && apt-get install --no-install-recommends ${missing[*]}
then repeat the command."
  fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"; }

# The packages apt would remove to install the arguments. Changes nothing.
removed_by() {
  apt-get -s -qq --no-install-recommends install "$@" 2>/dev/null | awk '$1 == "Remv" { print $2 }'
}

# unpack PACKAGE FOLDER: its files, without installing it.
unpack() (
  mkdir -p "$2" && cd "$2" && apt-get download "$1" >&2 && dpkg -x "$1"_*.deb . && rm -f "$1"_*.deb
)

# Debian lets one Boost be installed for development, and libboost-dev is 1.74, which is too old for us.
# Whoever has 1.74 has it for other work, so it stays: only Boost's headers are used here, and they are
# unpacked inside build/, where cmake/AshlarDependencies.cmake looks first.
unpack_private_boost() {
  say "libboost1.81-dev conflicts with Boost packages installed here; they stay as they are, and" \
    "Boost 1.81's headers are unpacked to ${private_boost#"$project_root"/} for this project alone"
  unpack libboost1.81-dev "$private_boost" || die "could not unpack libboost1.81-dev. Either repeat the
command, or replace the installed Boost yourself: apt-get install libboost1.81-dev"
}

# Installing nginx would start a web server on port 80. A test needs the program alone.
unpack_private_nginx() {
  say "nginx is unpacked to ${private_nginx#"$project_root"/} for a test alone, and not installed"
  unpack nginx "$private_nginx" || die "could not unpack nginx: repeat the command"
}

install_missing() {
  say "installing for '$*': ${missing[*]}"
  # shellcheck disable=SC1091
  if [[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" != bookworm ]]; then
    say "note: this is not Debian 12 (bookworm), for which the list of packages was made"
  fi
  apt update -qq || die "apt-get update failed (see above): check this machine's network and apt sources"
  if [[ " ${missing[*]} " == *" nginx "* ]]; then
    unpack_private_nginx
    find_missing "$@"
    [[ ${#missing[@]} -gt 0 ]] || return 0
  fi
  local removed
  removed="$(removed_by "${missing[@]}")" || true
  if [[ -n "$removed" && " ${missing[*]} " == *" libboost1.81-dev "* ]]; then
    unpack_private_boost
    find_missing "$@"
    [[ ${#missing[@]} -gt 0 ]] || return 0
    removed="$(removed_by "${missing[@]}")" || true
  fi
  [[ -z "$removed" ]] || die "installing ${missing[*]} would remove packages you have: ${removed//$'\n'/ }
Nothing was changed. If you can spare them, run:
  apt-get install --no-install-recommends ${missing[*]}
then repeat the command."
  apt install -y -qq --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install ${missing[*]} (see above)"
}

main() {
  private_boost="$project_root/build/deps/boost"
  private_nginx="$project_root/build/deps/nginx"
  if [[ $# -eq 0 || "$1" == -h || "$1" == --help ]]; then
    usage
    [[ $# -gt 0 ]] && exit 0 || exit 2
  fi
  local step
  for step in "$@"; do
    packages_of "$step" >/dev/null || die "no step '$step': it is one of build model test analysis fuzz bench cross study"
  done
  [[ "${ASHLAR_SKIP_INSTALL:-0}" != 1 ]] || return 0
  type apt-get dpkg-query >/dev/null 2>&1 || die "this system has no apt.
Ashlar is built and tested on Debian 12. Elsewhere, install the equivalents of
  $(for step in "$@"; do packages_of "$step"; done | xargs)
and set ASHLAR_SKIP_INSTALL=1."
  find_missing "$@"
  [[ ${#missing[@]} -gt 0 ]] || return 0
  install_missing "$@"
}

main "$@"
