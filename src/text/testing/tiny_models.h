// Small vocabularies for tests, fuzzers and benchmarks: the metadata of a model file without
// tensors. Tests change keys before they build it.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "gguf/testing/gguf_writer.h"
#include "text/tokenizer.h"

namespace ashlar::text {

// Byte-level BPE, pre-tokenizer "gpt-2". Tokens: 0 to 255 the bytes 0x00 to 0xFF; 256 "he", 257
// "ll", 258 "hell", 259 "hello", 260 " hello", 261 " w", 262 the 3 bytes of U+20AC (with 263, its
// first two); 264 "<|bos|>", 265 "<|im_end|>" and 266 "<|endoftext|>" are control, 267 "[tool]" and
// 268 "[tool][tool]" user-defined. eos is 265, bos 264; add_bos_token is false.
gguf::GgufWriter TinyBpe();

// SentencePiece BPE. Tokens: 0 "<unk>", 1 "<s>", 2 "</s>", 3 to 258 the bytes, 259 "▁", 260 "a",
// 261 "b", 262 "ab", 263 "▁a", 264 "ba", 265 "▁ab", 266 "€", 267 "aa", 268 "▁▁", 269 "<tool>"
// (user-defined). Scores: "ab" before "▁a" before "aa" before "ba" before "▁ab" before "▁▁".
gguf::GgufWriter TinySpm();

// The tokenizer of what `writer` builds.
Result<std::unique_ptr<const Tokenizer>> CreateTokenizer(const gguf::GgufWriter& writer);

// The same, of a writer that is known to be right.
std::unique_ptr<const Tokenizer> MustCreateTokenizer(const gguf::GgufWriter& writer);

}  // namespace ashlar::text
