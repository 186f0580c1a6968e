// Element types of stored tensors: the list in the safetensors format description.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace nibble {

enum class DType : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

int num_bits(DType dtype);
std::string_view name(DType dtype);                    // name in a safetensors header: "BF16"
std::optional<DType> dtype_of(std::string_view name);  // nullopt: no such type

}  // namespace nibble

template <>
struct fmt::formatter<nibble::DType> : fmt::formatter<std::string_view> {
  auto format(nibble::DType dtype, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(nibble::name(dtype), context);
  }
};
