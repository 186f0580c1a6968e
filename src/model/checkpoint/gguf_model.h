// A GGUF file as a model: finds the model's tensors, uses in place what it can, and converts the rest.
//   matrices              BF16 is used as stored. Other types become Blocks; conversion rounds to nearest
//                         BF16, and is exact for MXFP4, and for F32 or F16 whose values fit BF16
//   norms, biases, sinks  F32 and BF16 are used as stored; F16 becomes F32. The file has one bias tensor for
//                         gate and one for up; they are interleaved in one vector
//   experts               MXFP4 becomes Blocks: even rows are gate's, odd rows are up's; conversion gives
//                         separate codes and scales of the same numbers. Other types become StoredExperts
//   NVFP4                 may have a factor: NAME.scale next to NAME.weight, F32, one for all or one per
//                         expert. NAME.input_scale has no effect: inputs are not quantised
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/threads/thread_pool.h"
#include "formats/foreign_matrix.h"
#include "formats/gguf.h"
#include "model/bind_weights.h"
#include "model/checkpoint/tensor_source.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// The name in GGUF of a tensor in Hugging Face's naming. Codes and scales of experts are the same GGUF
// tensor. gate_up is two GGUF tensors: `name` is gate's, `up` is up's, or empty for any other tensor.
struct GgufName {
  std::string name, up;
};
GgufName gguf_name(const TensorSpec& spec);

class GgufModel {
 public:
  // Checks that the file has every tensor of the configuration, in a supported type and the right shape, and
  // no other tensor. Throws InputError.
  explicit GgufModel(const std::filesystem::path& path, FileAccess access = FileAccess::kMap);

  const Gguf& gguf() const { return gguf_; }
  const Config& config() const { return config_; }

  // Returns the tensor as the file stores it; its `data` is null if the tensor must be converted.
  StoredTensor stored(const TensorSpec& spec) const;
  // Returns the experts whose codes or scales `spec` describes. Null if they are MXFP4 and need no
  // conversion; gate and up must then have the same GGML type.
  std::shared_ptr<const StoredExperts> experts(const TensorSpec& spec) const;
  // Returns a dense NVFP4 matrix whose file has a factor for it (NAME.scale, see above); null for any other.
  std::shared_ptr<const ForeignMatrix> foreign(const TensorSpec& spec) const;
  // Returns the blocks of a matrix that must be converted. For the kCodes of experts, they include the
  // scales.
  Blocks blocks(const TensorSpec& spec) const;
  size_t num_bytes(const TensorSpec& spec) const;  // bytes of the tensor in the dtype of stored()
  GgmlType type(const TensorSpec& spec) const;     // type of the tensor in the file
  // Writes num_bytes() bytes of a tensor that must be converted. Returns false if a value had to be rounded.
  bool convert(const TensorSpec& spec, std::byte* to, ThreadPool& pool) const;
  // Converts a norm, a bias or sinks, exactly.
  void convert_vector(const TensorSpec& spec, float* values) const;

 private:
  // The rows of a GGUF tensor that hold a tensor of the model. For gate_up, `tensor` holds gate and `up`
  // holds up; `up` is null for all others.
  struct GgufRows {
    const GgufTensor* tensor;
    uint64_t first_row{0};
    const GgufTensor* up{nullptr};
  };
  std::string name_in_file(const std::string& name) const;  // name in this file; `name` is llama.cpp's
  GgufRows rows_of(const TensorSpec& spec) const;
  const GgufTensor* find(const std::string& name, const Shape& shape) const;
  const GgufTensor* beside(const GgufTensor& weight, std::string_view ending) const;
  ExpertTensor expert_tensor(const GgufTensor& tensor, int count) const;
  std::vector<float> factors_of(const GgufTensor& weight, size_t count) const;
  void check(const TensorSpec& spec, const GgufRows& rows) const;

  Gguf gguf_;
  Config config_;
};

// Tensors that must be converted are converted when they are read, on all cores.
TensorSource open_gguf_source(const std::filesystem::path& path, ExpertRounding rounding);

// Matrices are views of BF16 elements or of blocks; model/convert_blocks.h converts blocks that a backend
// does not read. Vectors that cannot be used as stored are converted here.
Weights open_gguf_weights(const std::filesystem::path& path, FileAccess access = FileAccess::kMap);

}  // namespace nibble
