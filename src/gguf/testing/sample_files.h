// Files for tests and for the fuzzer's corpus.
#pragma once

#include "gguf/testing/gguf_writer.h"

namespace ashlar::gguf {

// Shaped like a real model of the Llama family, but tiny (about 3 kB): its usual keys, a
// vocabulary, a tensor of every dtype, two blocks.
GgufWriter SmallModel();

// A key of every value type and an array of every element type; no tensors. Keys are "scalar.u8",
// "array.f64", "empty.strings" and so on; the numbers are each type's smallest and largest.
GgufWriter EveryValueType();

}  // namespace ashlar::gguf
