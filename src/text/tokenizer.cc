#include "text/tokenizer.h"

#include "gguf/describe.h"
#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"

namespace ashlar::text {

Result<std::unique_ptr<const Tokenizer>> Tokenizer::Create(const gguf::ModelFile& file) {
  ASHLAR_ASSIGN(const std::string_view model, file.String("tokenizer.ggml.model"));
  if (model == "gpt2") return BpeTokenizer::Create(file);
  if (model == "llama") return SpmTokenizer::Create(file);
  return MakeError(ErrorCode::kUnsupported,
                   "tokenizer.ggml.model is {}, a tokenizer we do not know; known: gpt2, llama",
                   gguf::Quote(model));
}

}  // namespace ashlar::text
