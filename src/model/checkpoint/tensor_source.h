// Reads a model's tensors one by one from any source, so that writing a model to a file needs memory for a
// single tensor.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/tensors/buffer.h"
#include "model/bind_weights.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

struct TensorSource {
  Config config;
  std::string name;  // name of the model in messages
  // Returns the dtype that read() gives: BF16 or F32, and U8 for codes and scales.
  std::function<DType(const TensorSpec&)> dtype;
  // Returns the tensor: in place, or converted or generated in `room`, which grows if necessary.
  std::function<StoredTensor(const TensorSpec&, Buffer& room)> read;
};

// Whether experts that are not MXFP4 may be rounded to MXFP4. If not, MXFP4 must hold every value exactly.
enum class ExpertRounding { kNone, kToMxfp4 };
// Opens the same checkpoints as open_weights(), with the same checks. Experts that are not MXFP4 are
// converted to it.
TensorSource open_source(const std::filesystem::path& path, ExpertRounding rounding = ExpertRounding::kNone);

// Returns BF16 if that can hold all values of the tensor exactly, otherwise F32. Reads the tensor into `room`
// if the source has it in F32.
DType exact_dtype(const TensorSource& source, const TensorSpec& spec, Buffer& room);
// Returns the tensor's elements in `dtype`: in place, or converted from F32 to BF16 in `narrow`. The
// conversion is exact if `dtype` is exact_dtype().
const std::byte* elements_as(DType dtype, const TensorSource& source, const TensorSpec& spec, Buffer& room,
                             Buffer& narrow);

}  // namespace nibble
