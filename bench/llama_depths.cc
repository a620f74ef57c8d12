// Speed of llama.cpp at a depth, for bench/compare_depths.
//
//     llama_depths MODEL CONTEXT THREADS f16|q8_0|q4_0 on|off
//
// The last two: what its cache stores, and flash attention. Then a command a line on stdin, each
// answered by a line on stdout:
//
//     fill N      puts tokens into the cache until it holds N of them; answers `ok`
//     prefill N   the seconds that a prompt of N tokens behind them takes; takes it back
//     decode N    the same, of N tokens one after the other
//
// What K and V say changes no time, so only the first batch of a text is computed: the cache is
// filled with copies of its state, each moved to its place.
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr int kBatch = 512;
constexpr llama_seq_id kText = 0;
constexpr llama_seq_id kFill = 1;

void Require(bool is_fulfilled, const std::string& what) {
  if (is_fulfilled) return;
  std::cerr << "llama_depths: " << what << '\n';
  std::exit(1);
}

// A text in the cache, and what follows on it for a while.
class Text {
 public:
  explicit Text(llama_context* context)
      : context_(context), batch_(llama_batch_init(kBatch, 0, 1)) {
    const llama_vocab* const vocab = llama_model_get_vocab(llama_get_model(context));
    vocabulary_ = llama_vocab_n_tokens(vocab);
  }
  ~Text() { llama_batch_free(batch_); }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  void Fill(int tokens) {
    llama_memory_t memory = llama_get_memory(context_);
    Require(llama_memory_can_shift(memory), "this model's cache has no places to move to");
    while (filled_ < tokens) {
      const int count = std::min(kBatch, tokens - filled_);
      if (batch_state_.empty()) ComputeBatch();
      Require(llama_state_seq_set_data(context_, batch_state_.data(), batch_state_.size(), kFill) ==
                  batch_state_.size(),
              "no room for a batch's state");
      llama_memory_seq_rm(memory, kFill, count, -1);
      llama_memory_seq_add(memory, kFill, 0, -1, filled_);
      llama_memory_seq_cp(memory, kFill, kText, -1, -1);
      llama_memory_seq_rm(memory, kFill, -1, -1);
      filled_ += count;
    }
    SecondsOf(1, 1);  // the keys turn to their places with the next token
  }

  double SecondsOf(int tokens, int at_a_time) {
    const auto start = std::chrono::steady_clock::now();
    for (int done = 0; done < tokens; done += at_a_time) {
      Decode(kText, filled_ + done, std::min(at_a_time, tokens - done));
    }
    llama_synchronize(context_);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    Require(llama_memory_seq_rm(llama_get_memory(context_), kText, filled_, -1), "no way back");
    return passed.count();
  }

 private:
  void ComputeBatch() {
    Decode(kFill, 0, kBatch);
    batch_state_.resize(llama_state_seq_get_size(context_, kFill));
    Require(llama_state_seq_get_data(context_, batch_state_.data(), batch_state_.size(), kFill) ==
                batch_state_.size(),
            "a batch's state is not what it said");
    llama_memory_seq_rm(llama_get_memory(context_), kFill, -1, -1);
  }

  void Decode(llama_seq_id sequence, int position, int count) {
    batch_.n_tokens = count;
    for (int i = 0; i < count; ++i) {
      state_ = state_ * 1664525u + 1013904223u;  // any tokens will do
      batch_.token[i] =
          static_cast<llama_token>((state_ >> 8) % static_cast<unsigned>(vocabulary_));
      batch_.pos[i] = position + i;
      batch_.n_seq_id[i] = 1;
      batch_.seq_id[i][0] = sequence;
      batch_.logits[i] = i + 1 == count ? 1 : 0;
    }
    Require(llama_decode(context_, batch_) == 0, "a batch was refused");
  }

  llama_context* context_;
  llama_batch batch_;
  int vocabulary_ = 0;
  int filled_ = 0;
  std::vector<std::uint8_t> batch_state_;
  unsigned state_ = 1;
};

ggml_type TypeOf(const std::string& name) {
  if (name == "f16") return GGML_TYPE_F16;
  if (name == "q8_0") return GGML_TYPE_Q8_0;
  Require(name == "q4_0", "cache type " + name + " is none of f16, q8_0, q4_0");
  return GGML_TYPE_Q4_0;
}

void Answer(Text& text) {
  std::string command;
  int tokens = 0;
  while (std::cin >> command >> tokens) {
    if (command == "fill") {
      text.Fill(tokens);
      std::printf("ok\n");
    } else {
      Require(command == "prefill" || command == "decode", "unknown command " + command);
      std::printf("%.9f\n", text.SecondsOf(tokens, command == "prefill" ? kBatch : 1));
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Require(argc == 6, "wanted MODEL CONTEXT THREADS CACHE_TYPE on|off");
  const int tokens = std::atoi(argv[2]);
  const int threads = std::atoi(argv[3]);
  const std::string flash = argv[5];
  Require(tokens > 0 && threads > 0, "CONTEXT and THREADS are at least 1");
  Require(flash == "on" || flash == "off", "flash attention '" + flash + "' is neither on nor off");
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model* const model = llama_model_load_from_file(argv[1], llama_model_default_params());
  Require(model != nullptr, std::string("no model in ") + argv[1]);
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<unsigned>(tokens);
  params.n_batch = params.n_ubatch = kBatch;
  params.n_seq_max = 2;
  params.kv_unified = true;
  params.n_threads = params.n_threads_batch = threads;
  params.type_k = params.type_v = TypeOf(argv[4]);
  params.flash_attn_type =
      flash == "on" ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* const context = llama_init_from_model(model, params);
  Require(context != nullptr, "llama.cpp refuses these settings");
  {
    Text text(context);
    Answer(text);
  }
  llama_free(context);
  llama_model_free(model);
}
