// Text to token ids and back, as the model's file says: byte-level BPE (tokenizer.ggml.model
// "gpt2") and SentencePiece BPE ("llama").
//
// Immutable after construction; all methods may be called from any thread at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gguf/model_file.h"

namespace ashlar::text {

struct EncodeOptions {
  // Put the beginning-of-text token in front when the model asks for it
  // (tokenizer.ggml.add_bos_token).
  bool add_special = true;
  // Recognise special tokens ("<|im_start|>") in the text; otherwise their letters are plain text.
  // Text from users must be encoded with false, rendered chat templates with true.
  bool parse_special = false;
};

class Tokenizer {
 public:
  // Reads tokenizer.ggml.*; keeps nothing of `file`. Errors: kCorrupt (naming the token, merge or
  // key), kNotFound or kInvalidArgument (a key is missing or of another type), kUnsupported (an
  // unknown model or pre-tokenizer, named, with those we know; a limit of vocabulary.h).
  static Result<std::unique_ptr<const Tokenizer>> Create(const gguf::ModelFile& file);

  virtual ~Tokenizer() = default;

  // Any bytes at all: what is not UTF-8 is encoded through byte tokens. Linear in practice. Tokens
  // the file calls user-defined are found in the text whatever the options say.
  virtual std::vector<TokenId> Encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;

  // The bytes a token stands for (maybe part of a code point). Special tokens give their text when
  // `with_special`, else nothing. Precondition: 0 <= token < vocab_size().
  virtual std::string_view TokenBytes(TokenId token, bool with_special) const = 0;

  // Whole-sequence decoding: TokenBytes joined, less the space SentencePiece puts before the first
  // word. May end in part of a code point; bytes that are not UTF-8 stay as they are.
  virtual std::string Decode(std::span<const TokenId> tokens, bool with_special) const = 0;

  virtual std::size_t vocab_size() const = 0;
  virtual std::optional<TokenId> bos_token() const = 0;
  virtual std::optional<TokenId> eos_token() const = 0;
  // Every token that ends a generation: eos, end-of-turn ("<|eot_id|>", "<|im_end|>",
  // "<end_of_turn>").
  virtual std::span<const TokenId> end_tokens() const = 0;
  virtual bool adds_bos() const = 0;
  // Whether Encode puts a space before a text (SentencePiece models without
  // tokenizer.ggml.add_space_prefix = false), which Decode takes off again.
  virtual bool adds_space_prefix() const = 0;
  virtual bool IsSpecial(TokenId token) const = 0;
  // The token whose text, as TokenBytes(token, true) gives it, is exactly this; a special or
  // user-defined one first. Byte tokens are not found.
  virtual std::optional<TokenId> FindToken(std::string_view text) const = 0;
};

// Turns a stream of tokens into text that is always whole UTF-8: bytes of an unfinished code point
// wait for the next token; bytes that can never become one are replaced by U+FFFD. One per
// sequence.
//
// All texts joined are Decode's bytes with U+FFFD in place of what is not UTF-8, however the tokens
// came.
class Detokenizer {
 public:
  struct Options {
    bool with_special = false;  // show special tokens too
    // The tokens go on where other text ends (a completion of a prompt): a space in front of the
    // first word is a space, not the one SentencePiece puts before every text.
    bool continues_text = false;
  };

  // `tokenizer` must outlive it.
  explicit Detokenizer(const Tokenizer& tokenizer) : Detokenizer(tokenizer, Options{}) {}
  Detokenizer(const Tokenizer& tokenizer, Options options);

  // The text that became certain with this token; maybe empty.
  // Precondition: 0 <= token < tokenizer.vocab_size().
  std::string Push(TokenId token);
  // The text for the bytes still waiting (U+FFFD for an unfinished code point). Ends the stream.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool with_special_;
  bool strips_space_;    // no text yet, and its first space is not part of it
  std::string pending_;  // at most 3 bytes between calls
};

}  // namespace ashlar::text
