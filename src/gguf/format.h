// The numbers that the GGUF format fixes, and the limits we put on what it leaves open. Shared by
// the reader and by the builder of test files.
//
// A file is: magic, version u32, tensor count u64, key count u64; then per key its name, type and
// value; then per tensor its name, dims, type and offset; padding to the alignment; then tensor
// data, each tensor's offset counted from there. A string is a u64 length and that many bytes. All
// little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace ashlar::gguf {

inline constexpr std::uint32_t kMagic = 0x46554747;  // the bytes "GGUF" read as little endian
inline constexpr std::uint32_t kSwappedMagic = 0x47475546;
inline constexpr std::uint32_t kMinVersion = 2;  // version 1 had 32-bit lengths
inline constexpr std::uint32_t kMaxVersion = 3;  // version 3 only added big-endian files
inline constexpr std::size_t kHeaderBytes = 24;

inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr std::string_view kSplitNumberKey = "split.no";  // of this part, from 0
inline constexpr std::string_view kSplitCountKey = "split.count";
inline constexpr std::string_view kSplitTensorsKey =
    "split.tensors.count";  // in all parts together

inline constexpr std::uint64_t kDefaultAlignment = 32;

// The format asks for a multiple of 8; every real file has a power of two. Below 8 an F32 tensor
// could not be read in place; above 1 MiB lies no known use, only padding that hides something.
inline constexpr std::uint64_t kMinAlignment = 8;
inline constexpr std::uint64_t kMaxAlignment = 1 << 20;

// The format's own limits.
inline constexpr std::uint64_t kMaxKeyBytes = 65535;
inline constexpr std::uint64_t kMaxTensorNameBytes = 64;
inline constexpr std::uint32_t kMaxDims = 4;

// Ours, so that a hostile file cannot make us hold many times its own size. The largest real files
// have about 50 keys, 50,000 tensors (unfused experts), 600,000 array elements (merges) and 100
// parts.
inline constexpr std::uint64_t kMaxKeys = 1 << 16;
inline constexpr std::uint64_t kMaxTensors = 1 << 18;
inline constexpr std::uint64_t kMaxArrayElements = 1 << 24;  // in all arrays of a file together
inline constexpr std::uint64_t kMaxParts = 1000;

// Of one tensor. Up to this many neither RowBytes nor the total can overflow, and no disk is that
// large.
inline constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 56;

// The type of a metadata value, as numbered in the file.
enum class ValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr std::uint32_t kValueTypes = 13;

// Bytes of one number or boolean; 0 for strings and arrays, whose size is in the file.
std::size_t SizeOf(ValueType type);

// The number that stands for `dtype` in a tensor's directory entry.
std::uint32_t TensorTypeCode(DType dtype);

// The format behind a tensor type's number, or nullopt when it is none that we read.
std::optional<DType> DTypeOfCode(std::uint32_t code);

// GGML's name for a tensor type, also those we do not read; empty for numbers it never used.
std::string_view TensorTypeName(std::uint32_t code);

}  // namespace ashlar::gguf
