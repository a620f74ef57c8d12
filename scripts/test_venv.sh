#!/usr/bin/env bash
# test_venv.sh: makes build/test-venv, the Python that tests run with, and prints its path.
# It sees Debian's packages (jinja2) and holds the pinned ones of scripts/test_requirements.txt. Made once;
# made anew when the requirements change.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

main() {
  local venv="$project_root/build/test-venv"
  local requirements="$project_root/scripts/test_requirements.txt"
  local want
  want="$("$system_python" --version) $(sha256sum <"$requirements")"
  if [[ ! -x "$venv/bin/python" || "$(cat "$venv/stamp" 2>/dev/null)" != "$want" ]]; then
    say "making $venv with the packages of ${requirements#"$project_root"/}"
    rm -rf "$venv"
    mkdir -p "${venv%/*}"
    "$system_python" -m venv --system-site-packages "$venv"
    "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --only-binary :all: \
      --requirement "$requirements" >&2 </dev/null ||
      die "pip could not install the tests' Python packages (see above): check the network and pip's settings"
    echo "$want" >"$venv/stamp"
  fi
  echo "$venv/bin/python"
}

main "$@"
