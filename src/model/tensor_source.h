// A model's tensors one by one, wherever they come from: what is written to a file in the memory of one of them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/buffer.h"
#include "model/bind_weights.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

struct TensorSource {
  Config config;
  std::string name;                               // for people
  std::function<DType(const TensorSpec&)> dtype;  // as read() gives it: BF16 or F32, U8 for codes and scales
  // The tensor where it lies, or made in `room`, which is made larger where it has to be.
  std::function<StoredTensor(const TensorSpec&, Buffer& room)> read;
};

// What open_weights() opens, with the same checks.
TensorSource open_source(const std::filesystem::path& path);

// BF16 where the source has BF16, or F32 of which every value is a BF16; else F32. Reads F32 tensors. Not for codes.
DType exact_dtype(const TensorSource& source, const TensorSpec& spec, Buffer& room);
// The elements in `dtype`: where they are, or narrowed into `narrow` where every value is a BF16.
const std::byte* elements_as(DType dtype, const TensorSource& source, const TensorSpec& spec, Buffer& room,
                             Buffer& narrow);

}  // namespace nibble
