#include "kv/replacement.h"

#include <string>

#include "base/check.h"
#include "kv/replacement/policies.h"
#include "kv/replacement/records.h"

namespace ashlar::kv {

std::string_view NameOf(ReplacementKind kind) {
  switch (kind) {
    case ReplacementKind::kLru:
      return "lru";
    case ReplacementKind::kFifo:
      return "fifo";
    case ReplacementKind::kLfu:
      return "lfu";
    case ReplacementKind::kSlru:
      return "slru";
    case ReplacementKind::kS3Fifo:
      return "s3fifo";
    case ReplacementKind::kSieve:
      return "sieve";
    case ReplacementKind::kCostAware:
      return "cost-aware";
  }
  ASHLAR_CHECK(false, "replacement kind {}", static_cast<int>(kind));
}

Result<ReplacementKind> ParseReplacementKind(std::string_view name) {
  std::string names;
  for (const ReplacementKind kind : kReplacementKinds) {
    if (name == NameOf(kind)) return kind;
    if (!names.empty()) names += ", ";
    names += NameOf(kind);
  }
  return MakeError(ErrorCode::kInvalidArgument, "replacement policy '{}' is none of {}", name,
                   names);
}

void ReplacementRecordsDelete::operator()(ReplacementRecords* records) const { delete records; }

ReplacementRecordsPtr MakeReplacementRecords(std::uint32_t blocks) {
  return ReplacementRecordsPtr(new ReplacementRecords(blocks));
}

std::unique_ptr<ReplacementQueue> MakeReplacementQueue(ReplacementKind kind,
                                                       ReplacementRecords& records) {
  switch (kind) {
    case ReplacementKind::kLru:
      return MakeLruQueue(records);
    case ReplacementKind::kFifo:
      return MakeFifoQueue(records);
    case ReplacementKind::kLfu:
      return MakeLfuQueue(records);
    case ReplacementKind::kSlru:
      return MakeSlruQueue(records);
    case ReplacementKind::kS3Fifo:
      return MakeS3FifoQueue(records);
    case ReplacementKind::kSieve:
      return MakeSieveQueue(records);
    case ReplacementKind::kCostAware:
      return MakeCostAwareQueue(records);
  }
  ASHLAR_CHECK(false, "replacement kind {}", static_cast<int>(kind));
}

}  // namespace ashlar::kv
