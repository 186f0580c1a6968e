#include "core/tensors/dtype.h"

#include <iterator>

#include "core/errors/check.h"

namespace nibble {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int num_bits;
};
constexpr Row kDTypes[] = {
    // In the order of the enumeration:
    {DType::kBool, "BOOL", 8},
    {DType::kF4, "F4", 4},
    {DType::kF6E2M3, "F6_E2M3", 6},
    {DType::kF6E3M2, "F6_E3M2", 6},
    {DType::kU8, "U8", 8},
    {DType::kI8, "I8", 8},
    {DType::kF8E5M2, "F8_E5M2", 8},
    {DType::kF8E4M3, "F8_E4M3", 8},
    {DType::kF8E8M0, "F8_E8M0", 8},
    {DType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    {DType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    {DType::kI16, "I16", 16},
    {DType::kU16, "U16", 16},
    {DType::kF16, "F16", 16},
    {DType::kBf16, "BF16", 16},
    {DType::kI32, "I32", 32},
    {DType::kU32, "U32", 32},
    {DType::kF32, "F32", 32},
    {DType::kC64, "C64", 64},
    {DType::kF64, "F64", 64},
    {DType::kI64, "I64", 64},
    {DType::kU64, "U64", 64},
};
static_assert([] {
  for (size_t i = 0; i < std::size(kDTypes); ++i)
    if (kDTypes[i].dtype != static_cast<DType>(i)) return false;
  return std::size(kDTypes) == size_t{static_cast<uint8_t>(DType::kU64)} + 1;
}());

const Row& row(DType dtype) {
  NIBBLE_CHECK(static_cast<size_t>(dtype) < std::size(kDTypes), "dtype {}", static_cast<int>(dtype));
  return kDTypes[static_cast<size_t>(dtype)];
}

}  // namespace

int num_bits(DType dtype) { return row(dtype).num_bits; }

std::string_view name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_of(std::string_view name) {
  for (const Row& row : kDTypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

}  // namespace nibble
