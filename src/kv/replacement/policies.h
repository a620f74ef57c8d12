// The policies, one constructor each; replacement.h says what they do.
#pragma once

#include <memory>

#include "kv/replacement.h"

namespace ashlar::kv {

std::unique_ptr<ReplacementQueue> MakeLruQueue(ReplacementRecords& records);
std::unique_ptr<ReplacementQueue> MakeFifoQueue(ReplacementRecords& records);
std::unique_ptr<ReplacementQueue> MakeLfuQueue(ReplacementRecords& records);
std::unique_ptr<ReplacementQueue> MakeSlruQueue(ReplacementRecords& records);
std::unique_ptr<ReplacementQueue> MakeS3FifoQueue(ReplacementRecords& records);
std::unique_ptr<ReplacementQueue> MakeSieveQueue(ReplacementRecords& records);
std::unique_ptr<ReplacementQueue> MakeCostAwareQueue(ReplacementRecords& records);

}  // namespace ashlar::kv
