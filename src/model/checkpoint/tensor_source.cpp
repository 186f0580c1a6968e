#include "model/checkpoint/tensor_source.h"

#include <algorithm>
#include <span>

#include "core/errors/check.h"
#include "core/numbers/bf16.h"

namespace nibble {

DType exact_dtype(const TensorSource& source, const TensorSpec& spec, Buffer& room) {
  if (source.dtype(spec) != DType::kF32) return source.dtype(spec);
  const std::span values(static_cast<const float*>(source.read(spec, room).data), *num_elements(spec.shape));
  const bool is_bf16 = std::ranges::all_of(values, [](float x) { return to_float(to_bf16(x)) == x; });
  return is_bf16 ? DType::kBf16 : DType::kF32;
}

const std::byte* elements_as(DType dtype, const TensorSource& source, const TensorSpec& spec, Buffer& room,
                             Buffer& narrow) {
  const StoredTensor stored = source.read(spec, room);
  if (stored.dtype == dtype) return static_cast<const std::byte*>(stored.data);
  NIBBLE_CHECK(stored.dtype == DType::kF32 && dtype == DType::kBf16, "{}: {} as {}", spec.name, stored.dtype,
               dtype);
  const size_t count = *num_elements(spec.shape);
  if (narrow.bytes() < count * sizeof(Bf16)) narrow = Buffer(count * sizeof(Bf16));
  std::transform(static_cast<const float*>(stored.data), static_cast<const float*>(stored.data) + count,
                 narrow.as<Bf16>(), [](float x) { return to_bf16(x); });
  return narrow.data();
}

}  // namespace nibble
