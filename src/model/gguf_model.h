// A GGUF file as a model: maps its tensors to the model's, uses in place what it can, and converts the rest.
//
//   matrices              BF16 as they lie; every other type to BF16, to nearest even: exact from MXFP4, and from F32 or
//                         F16 that were BF16 before. Q8_0, MXFP4, and what an embedding is in, also as the blocks that lie
//                         there: who takes those has them exactly, and nothing is made
//   norms, biases, sinks  F32 and BF16 as they lie, F16 to F32
//   experts               MXFP4 alone: codes and scales into arrays of their own, the same numbers; gate and up, which
//                         have a tensor each, as rows 2i and 2i + 1 of one
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "formats/gguf.h"
#include "model/bind_weights.h"
#include "model/config.h"
#include "model/tensor_source.h"
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

  // What bind_weights() takes a tensor as, but for its blocks; `data` is null where it has to be made.
  StoredTensor stored(const TensorSpec& spec) const;
  StoredBlocks blocks(const TensorSpec& spec) const;  // none: of this type they are not taken
  size_t num_bytes(const TensorSpec& spec) const;     // in the type that stored() returns
  GgmlType type(const TensorSpec& spec) const;        // the type in the file
  // Bytes in the file; scales of experts count with their codes.
  size_t file_bytes(const TensorSpec& spec) const;
  // Writes the num_bytes() of a tensor that has to be made. False where a value had to be rounded.
  bool make(const TensorSpec& spec, std::byte* to, ThreadPool& pool) const;
  // Writes codes and scales of an experts' matrix in one pass.
  void make_experts(const TensorSpec& codes, std::byte* to_codes, std::byte* to_scales,
                    ThreadPool& pool) const;

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

// Tensors that have to be made are made when they are read, by all cores.
TensorSource open_gguf_source(const std::filesystem::path& path);

// Weights that are views where GgufModel has them, and otherwise made by Weights::make.
Weights open_gguf_weights(const std::filesystem::path& path);

}  // namespace nibble
