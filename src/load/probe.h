// What must be known of a server before it is measured: its model's name, and how long texts are in
// its tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/http_client.h"
#include "load/request_body.h"
#include "load/text_maker.h"

namespace ashlar::load {

// The first of /v1/models. Errors: of Fetch; kCorrupt for an answer that lists none.
Result<std::string> DiscoverModel(HttpClient& client);

// A text's tokens as a prompt, by /tokenize. Errors: of Fetch; kCorrupt for an answer without them.
Result<std::vector<std::uint32_t>> Tokenize(HttpClient& client, const std::string& model,
                                            const std::string& text);

struct Calibration {
  TextMaker text;
  std::string how;  // for people: "every word is a token (by /tokenize)"
};

// Counts the tokens of the words that texts are made of: by /tokenize (llama.cpp's, vLLM's and
// ours) or, where there is none, from the usage of short completions. Errors: of Fetch; kCorrupt
// for answers that count nothing.
Result<Calibration> Calibrate(HttpClient& client, const BodyOptions& body);

}  // namespace ashlar::load
