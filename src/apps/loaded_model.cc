#include "apps/loaded_model.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "hf/model_folder.h"

namespace ashlar::apps {
namespace {

// A bar that overwrites itself; nothing when stderr is not a terminal.
class ProgressBar {
 public:
  void Show(std::uint64_t done, std::uint64_t total) {
    if (!is_terminal_ || total == 0) return;
    const int percent = static_cast<int>(100 * done / total);
    if (percent == shown_) return;
    shown_ = percent;
    std::fprintf(stderr, "\rloading weights [%-40.*s] %3d %%", percent * 40 / 100,
                 "########################################", percent);
    if (done == total) std::fprintf(stderr, "\r%70s\r", "");
    std::fflush(stderr);
  }

 private:
  bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  int shown_ = -1;
};

}  // namespace

Result<LoadedModel> LoadedModel::Open(const std::string& path, std::size_t threads,
                                      model::WeightAccess access, std::uint64_t context) {
  auto opened = hf::OpenModel(path, hf::FolderParts::kAll);
  if (!opened.ok()) {
    return MakeError(opened.error().code,
                     "{}; give --model PATH of a GGUF file or of a folder of safetensors",
                     opened.error().message);
  }
  LoadedModel loaded;
  loaded.file_ = std::make_unique<const gguf::ModelFile>(*std::move(opened));
  ASHLAR_ASSIGN(loaded.tokenizer_, text::Tokenizer::Create(*loaded.file_));
  loaded.pool_ = std::make_unique<ThreadPool>(threads);
  ProgressBar bar;
  const auto show = [&](std::uint64_t done, std::uint64_t total) { bar.Show(done, total); };
  ASHLAR_ASSIGN(loaded.model_,
                model::Model::Load(*loaded.file_, *loaded.pool_, show, context, access));
  if (loaded.tokenizer_->vocab_size() != loaded.model_->config().vocab) {
    return MakeError(
        ErrorCode::kCorrupt,
        "'{}': the tokenizer has {} tokens but the embedding table {} rows; they must be equal",
        path, loaded.tokenizer_->vocab_size(), loaded.model_->config().vocab);
  }
  return loaded;
}

}  // namespace ashlar::apps
