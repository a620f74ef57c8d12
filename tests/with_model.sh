#!/usr/bin/env bash
# with_model.sh PROGRAM [ARGUMENT...]: a test program with the default model's path as its last argument:
# $ASHLAR_TEST_MODEL, or the one that scripts/fetch_model.sh keeps.
set -Eeuo pipefail
model="${ASHLAR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/ashlar/SmolLM2-135M-Instruct.Q4_1.gguf}"
if [[ ! -e "$model" ]]; then
  echo "no model for tests at $model: run scripts/fetch_model.sh, or set ASHLAR_TEST_MODEL" >&2
  exit 1
fi
exec "$@" "$model"
