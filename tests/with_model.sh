#!/usr/bin/env bash
# with_model.sh [--gemma3] PROGRAM [ARGUMENT...]: a test program with a model's path as its last argument: the
# default model ($ASHLAR_TEST_MODEL, or the one that scripts/fetch_model.sh keeps), or Gemma 3.
set -Eeuo pipefail
cache="${XDG_CACHE_HOME:-$HOME/.cache}/ashlar"
model="${ASHLAR_TEST_MODEL:-$cache/SmolLM2-135M-Instruct.Q4_1.gguf}"
advice="run scripts/fetch_model.sh, or set ASHLAR_TEST_MODEL"
if [[ "$1" == --gemma3 ]]; then
  model="$cache/gemma-3-270m-q4_k_m.gguf"
  advice="run scripts/fetch_model.sh gemma3"
  shift
fi
if [[ ! -e "$model" ]]; then
  echo "no model for tests at $model: $advice" >&2
  exit 1
fi
exec "$@" "$model"
