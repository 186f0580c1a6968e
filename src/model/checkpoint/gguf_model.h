// A GGUF file as a model: maps its tensors to the model's, uses in place what it can, and converts the rest.
//
//   matrices              BF16 as the file stores them. Every other type is Blocks, and BF16 to nearest even when it is
//                         converted: exact from MXFP4, and from F32 or F16 that were BF16 before
//   norms, biases, sinks  F32 and BF16 as the file stores them, F16 to F32. Biases of gate and up, which have a tensor
//                         each, alternate in one vector
//   experts               MXFP4 only, as Blocks, whose odd rows are those of up; converted, they are separate codes and
//                         scales of the same numbers
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "formats/gguf.h"
#include "model/bind_weights.h"
#include "model/checkpoint/tensor_source.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// The GGUF name of a tensor of Hugging Face's naming. Codes and scales of experts are one GGUF tensor; gate_up is
// two, of which `name` is the gate's and `up` the other's.
struct GgufName {
  std::string name, up;
};
GgufName gguf_name(const TensorSpec& spec);

class GgufModel {
 public:
  // Opens the file and checks that it has every tensor of the configuration, in a supported type and the right shape,
  // and no other. Throws InputError.
  explicit GgufModel(const std::filesystem::path& path);

  const Gguf& gguf() const { return gguf_; }
  const Config& config() const { return config_; }

  // A tensor that can be used as the file stores it; `data` is null where it has to be converted.
  StoredTensor stored(const TensorSpec& spec) const;
  // The blocks of a matrix that has to be converted. Codes of experts include the scales.
  Blocks blocks(const TensorSpec& spec) const;
  size_t num_bytes(const TensorSpec& spec) const;  // in the type that stored() returns
  GgmlType type(const TensorSpec& spec) const;     // the type in the file
  // Writes the num_bytes() of a tensor that has to be converted. Returns false where a value had to be rounded.
  bool convert(const TensorSpec& spec, std::byte* to, ThreadPool& pool) const;
  // The same for a norm, a bias or sinks, of which all values are exact.
  void convert_vector(const TensorSpec& spec, float* values) const;

 private:
  // The place of a tensor in the file: a GGUF tensor and the first row in it; for gate_up also the tensor of the
  // other half.
  struct Place {
    const GgufTensor* tensor;
    uint64_t first_row{0};
    const GgufTensor* up{nullptr};
  };
  Place place(const TensorSpec& spec) const;
  const GgufTensor* find(const std::string& name, const Shape& shape) const;
  void check(const TensorSpec& spec, const Place& place) const;

  Gguf gguf_;
  Config config_;
};

// Tensors that have to be converted are converted when they are read, on all cores.
TensorSource open_gguf_source(const std::filesystem::path& path);

// Matrices are views of BF16 elements or of blocks; model/convert_blocks.h converts those that a backend does not take.
// Vectors that cannot be used as the file stores them are converted here.
Weights open_gguf_weights(const std::filesystem::path& path);

}  // namespace nibble
