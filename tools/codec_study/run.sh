#!/usr/bin/env bash
# run.sh [FLAG...]: measures the KV codecs on the default model and writes what docs/codecs.md shows: its
# table, between its two marks, and docs/codecs.svg. FLAGs go to `ashlar eval` (--threads, --windows, ...).
# The text and the figures as JSON stay in build/codec_study/.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

# Codecs, for K and V (q8 and q4 alone are presets), and the presets.
readonly codecs=(bf16 fp8 k=q8,v=q8 hq8 k=q6,v=q6 hq6 k=q5,v=q5 hq5 k=q4,v=q4 hq4 k=hq8,v=hq4 kc4 k=kc2,v=kc2 hlm4 hlm3
  exact q8 balanced small-model q4)
readonly begin='<!-- measured: tools/codec_study/run.sh writes from here -->'
readonly end='<!-- to here -->'

# Prints the path of the Jargon File. Where Debian was installed without documents, its package is
# unpacked into build/.
jargon_file() {
  local file=/usr/share/doc/jargon-text/jargon.txt.gz
  if [[ ! -e "$file" ]]; then
    file="$work/jargon$file"
    if [[ ! -e "$file" ]]; then
      mkdir -p "$work/jargon"
      (cd "$work/jargon" && apt-get download jargon-text >&2 && dpkg -x jargon-text_*.deb . &&
        rm -f jargon-text_*.deb) || die "cannot download Debian's package jargon-text"
    fi
  fi
  echo "$file"
}

# Puts file $1 between the marks of docs/codecs.md.
update_document() {
  local document=docs/codecs.md
  if ! grep -qxF -e "$begin" "$document" || ! grep -qxF -e "$end" "$document"; then
    die "$document has lost the two marks that the table stands between"
  fi
  awk -v begin="$begin" -v end="$end" -v table="$1" '
    $0 == end { inside = 0 }
    !inside { print }
    $0 == begin { inside = 1; while ((getline line < table) > 0) print line }' \
    "$document" >"$work/codecs.md"
  cp "$work/codecs.md" "$document"
}

main() {
  cd "$project_root"
  work="$project_root/build/codec_study"
  local model="${MODEL:-${ASHLAR_MODEL:-}}" text="$work/text.txt"
  [[ -x build/release/bin/ashlar ]] || die "the program is not built: make codec-study"
  mkdir -p "$work"
  [[ -n "$model" ]] || model="$(scripts/fetch_model.sh)"
  "$system_python" tools/codec_study/make_text.py "$text" "$(jargon_file)"
  build/release/bin/ashlar eval --model "$model" --text "$text" --codecs "${codecs[@]}" --json \
    --svg "$work/codecs.svg" --markdown "$work/table.md" "$@" >"$work/figures.jsonl"
  update_document "$work/table.md"
  cp "$work/codecs.svg" docs/codecs.svg
  say "docs/codecs.md and docs/codecs.svg are up to date; the figures: $work/figures.jsonl"
}

main "$@"
