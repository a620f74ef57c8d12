// The keys of a tiny model's file.
#pragma once

#include "gguf/testing/gguf_writer.h"
#include "model/testing/tiny_family.h"
#include "model/testing/tiny_model.h"

namespace ashlar::model {

void SetTinyMetadata(gguf::GgufWriter& writer, const TinyFamily& family,
                     const TinyModelOptions& options);
void SetTinyVocabulary(gguf::GgufWriter& writer);

}  // namespace ashlar::model
