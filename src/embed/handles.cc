// Sequence and Lease.
#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "ashlar/kv_cache.h"
#include "embed/convert.h"
#include "embed/impl.h"

namespace ashlar::cache {

using internal::EmptyHandle;
using internal::Fail;

// A block id is its number: a table of ours is a table of integers to a kernel.
static_assert(sizeof(ashlar::BlockId) == sizeof(BlockId) &&
              std::is_standard_layout_v<ashlar::BlockId>);
static_assert(kv::kNoBlock.value() == kNoBlock);

// --- Sequence ---

Sequence::Sequence(std::unique_ptr<internal::SequenceImpl> impl) : impl_(std::move(impl)) {}
Sequence::Sequence(Sequence&& other) noexcept = default;
Sequence& Sequence::operator=(Sequence&& other) noexcept = default;
Sequence::~Sequence() = default;

std::uint64_t Sequence::size() const { return impl_ ? impl_->sequence.size() : 0; }
std::uint64_t Sequence::hit_tokens() const { return impl_ ? impl_->sequence.hit_tokens() : 0; }
std::uint64_t Sequence::bytes() const { return impl_ ? impl_->sequence.bytes() : 0; }
void Sequence::Release() { impl_.reset(); }

std::span<const TokenId> Sequence::tokens() const {
  return impl_ ? impl_->sequence.tokens() : std::span<const TokenId>();
}

Expected<void> Sequence::Prepare(std::uint64_t count) {
  if (!impl_) return EmptyHandle();
  return impl_->Prepare(count);
}

Expected<void> Sequence::Commit(std::span<const TokenId> tokens) {
  if (!impl_) return EmptyHandle();
  kv::Sequence& sequence = impl_->sequence;
  const std::uint64_t prepared =
      impl_->prepared > sequence.size() ? impl_->prepared - sequence.size() : 0;
  if (tokens.size() > prepared) {
    return Fail(ErrorCode::kInvalidArgument, "{} tokens committed after {}; {} are prepared",
                tokens.size(), sequence.size(), prepared);
  }
  sequence.Commit(tokens);
  return {};
}

Expected<std::uint64_t> Sequence::Truncate(std::uint64_t size) {
  if (!impl_) return EmptyHandle();
  kv::Sequence& sequence = impl_->sequence;
  if (size > sequence.size()) {
    return Fail(ErrorCode::kInvalidArgument, "a sequence of {} tokens cannot be cut to {}",
                sequence.size(), size);
  }
  const std::optional<std::uint64_t> reached = sequence.Truncate(size);
  if (!reached) {
    return Fail(ErrorCode::kNoMemory,
                "cut from {} tokens to {}, the memory to go on is not there: others hold it",
                sequence.size(), size);
  }
  impl_->prepared = 0;
  return *reached;
}

Expected<Sequence> Sequence::Fork(std::uint64_t max_tokens) {
  if (!impl_) return EmptyHandle();
  kv::Sequence& sequence = impl_->sequence;
  if (max_tokens < sequence.size() || max_tokens > kMaxTokens) {
    return Fail(ErrorCode::kInvalidArgument,
                "a fork for {} tokens of a sequence of {}; it must be for at least these and at "
                "most {}",
                max_tokens, sequence.size(), kMaxTokens);
  }
  std::optional<kv::Sequence> fork = sequence.Fork(max_tokens);
  if (!fork) {
    return Fail(ErrorCode::kNoMemory, "a fork for {} tokens: others hold the memory", max_tokens);
  }
  impl_->prepared = 0;  // the last block has two readers now
  return Sequence(std::make_unique<internal::SequenceImpl>(
      internal::SequenceImpl{.cache = impl_->cache, .sequence = std::move(*fork)}));
}

Expected<std::span<const BlockId>> Sequence::Blocks(std::uint32_t group) const {
  if (!impl_) return EmptyHandle();
  if (Expected<void> valid = impl_->cache->CheckGroup(group); !valid) return valid.error();
  const std::span<const ashlar::BlockId> blocks = impl_->sequence.blocks(group);
  return std::span(reinterpret_cast<const BlockId*>(blocks.data()), blocks.size());
}

Expected<std::span<std::byte* const>> Sequence::Addresses(std::uint32_t group) const {
  if (!impl_) return EmptyHandle();
  if (Expected<void> valid = impl_->cache->CheckGroup(group); !valid) return valid.error();
  if (!impl_->cache->has_bytes()) {
    return Fail(ErrorCode::kUnsupported, "this cache only decides: its blocks have no bytes");
  }
  return impl_->sequence.addresses(group);
}

// --- Lease ---

Lease::Lease(std::unique_ptr<internal::LeaseImpl> impl) : impl_(std::move(impl)) {}
Lease::Lease(Lease&& other) noexcept = default;
Lease& Lease::operator=(Lease&& other) noexcept = default;
Lease::~Lease() = default;

std::uint64_t Lease::tokens() const { return impl_ ? impl_->lease.tokens() : 0; }
std::uint64_t Lease::bytes() const { return impl_ ? impl_->lease.bytes() : 0; }
void Lease::Release() { impl_.reset(); }

Expected<BlockId> Lease::Block(std::uint32_t group, std::uint64_t number) const {
  if (!impl_) return EmptyHandle();
  if (Expected<void> valid = impl_->cache->CheckGroup(group); !valid) return valid.error();
  const std::uint64_t blocks = tokens() / impl_->cache->block_tokens();
  if (number >= blocks) {
    return Fail(ErrorCode::kInvalidArgument, "block {} of a lease of {} blocks", number, blocks);
  }
  return BlockId{impl_->lease.block(group, number).value()};
}

Expected<std::byte*> Lease::Address(std::uint32_t group, std::uint64_t number) const {
  const Expected<BlockId> block = Block(group, number);
  if (!block) return block.error();
  if (!impl_->cache->has_bytes()) {
    return Fail(ErrorCode::kUnsupported, "this cache only decides: its blocks have no bytes");
  }
  std::byte* none = nullptr;
  return *block == kNoBlock ? none : impl_->cache->kv->Data(ashlar::BlockId(*block));
}

}  // namespace ashlar::cache
