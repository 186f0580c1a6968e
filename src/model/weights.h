// The weights of a model, wherever they came from: views with their shapes, nothing copied. Nothing after this knows the
// file. Linear weights are [out, in]: y = x W^T + b.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bf16.h"
#include "core/check.h"
#include "core/dtype.h"
#include "core/progress.h"
#include "core/shape.h"
#include "core/thread_pool.h"
#include "formats/gguf.h"
#include "model/config.h"

namespace nibble {

// How elements are stored. A Matrix has kQ8_0 as StoredBlocks alone: backends repack it.
enum class Format { kF32, kBf16, kMxfp4, kE4m3, kQ8_0 };
std::string_view name(Format format);
// Bytes of `num_elements` elements that lie next to each other in a row, scales of blocks included.
size_t num_bytes(Format format, size_t num_elements);
// Bytes of a matrix: those of its elements and, for kE4m3, of its row scales.
size_t matrix_bytes(Format format, size_t rows, size_t cols);

// A vector of float32 or bfloat16: the scale of a norm, a bias, or sinks.
struct Vector {
  const void* data = nullptr;
  Format format = Format::kBf16;  // kF32 or kBf16
  int count = 0;
  float operator[](ptrdiff_t i) const {
    return format == Format::kF32 ? static_cast<const float*>(data)[i]
                                  : to_float(static_cast<const Bf16*>(data)[i]);
  }
};

// Rows of a matrix as a GGUF file has them, one behind the other in blocks of a type of ggml's (formats/ggml_blocks.h).
struct StoredBlocks {
  GgmlType type{GgmlType::kQ8_0};
  const std::byte* rows = nullptr;      // null: there are none
  const std::byte* odd_rows = nullptr;  // or every second row is here, and `rows` are the even ones
};
// Row r of a matrix of so many columns.
std::span<const std::byte> row_of(const StoredBlocks& blocks, size_t row, size_t cols);

// A matrix of one of the formats, row-major. For kMxfp4 `data` holds the codes (16 bytes for 32 elements, the even
// element in the low nibble) and `scales` one E8M0 byte for each 32. For kE4m3 `data` holds a byte for each element, and
// element (r, c) is e4m3(data[r cols + c]) * row_scales[r]; a product with a row is scaled once, at its end.
struct Matrix {
  const void* data = nullptr;
  const uint8_t* scales = nullptr;
  Format format = Format::kBf16;
  int rows = 0, cols = 0;
  const float* row_scales = nullptr;  // [rows]
  StoredBlocks blocks{};  // the same rows, for who takes them in place of elements that are not made
};
Format stored_format(
    const Matrix& matrix);  // of its blocks, if a Format says what they are; else of its elements

// What Weights::make fills: all, or all but the elements of matrices that have blocks.
enum class MakeWhat { kAll, kAllButBlocks };

// E matrices of one shape and format behind each other, with a bias vector each.
struct ExpertMatrices {
  Matrix first;  // of expert 0; the others follow without gaps
  Vector first_bias;
  Matrix matrix(int expert) const;
  Vector bias(int expert) const;
};

struct LayerWeights {
  LayerKind kind = LayerKind::kFull;
  Vector attention_norm;  // [H]
  Matrix q, k, v;         // [Nq D, H], [Nkv D, H], [Nkv D, H]
  Vector q_bias, k_bias, v_bias;
  Vector sinks;            // [Nq]
  Matrix o;                // [H, Nq D]
  Vector o_bias;           // [H]
  Vector mlp_norm;         // [H]
  Matrix router;           // [E, H]
  Vector router_bias;      // [E]
  ExpertMatrices gate_up;  // [E, 2I, H]: row 2i is gate i, row 2i+1 is up i
  ExpertMatrices down;     // [E, H, I]
  // Keeps their codes and scales alive where these do not belong to Weights::storage: who has a copy of his own lets go of it.
  std::shared_ptr<const void> experts_storage;
};

// A tensor whose bytes are not there: word i of 64 bits is (random_bits(seed, i) & mask) + base (core/random.h). Its
// addresses are reserved and may be compared, not read.
struct UnmadeTensor {
  const std::byte* data;
  size_t num_bytes;
  uint64_t seed, mask, base;
};

struct Weights {
  Config config;
  Matrix embedding;  // [V, H]
  std::vector<LayerWeights> layers;
  Vector final_norm;   // [H]
  Matrix unembedding;  // [V, H]

  std::vector<UnmadeTensor>
      unmade;  // by address: every tensor, for who makes them where it wants them; or none
  // Null, or fills what a file does not store as it is used (GGUF's blocks): to be called before anything is read, and
  // does so once for each. Until then addresses are there and memory is not taken.
  std::function<void(ThreadPool&, const ReportProgress&, MakeWhat)> make;
  // What is not made lies in mapped files: who has a copy of his own may give pages back (release_pages).
  bool is_mapped{false};
  std::string source;                   // for people: a path, or "synthetic:gpt-oss-20b"
  std::shared_ptr<const void> storage;  // keeps the mapped files or the made bytes alive
};

enum class TensorKind { kNorm, kBias, kSinks, kDense, kCodes, kScales };

// One tensor of a checkpoint in Hugging Face's naming: what a model of this configuration consists of.
struct TensorSpec {
  std::string name;
  TensorKind kind;
  DType dtype;  // as released: BF16, and U8 for kCodes and kScales
  Shape shape;
  size_t num_bytes;
};
std::vector<TensorSpec> tensor_specs(const Config& config);
size_t total_bytes(const std::vector<TensorSpec>& specs);

// Scales of MXFP4 do not count as parameters. `active`: those that one token reads, including one row of the
// embedding.
struct ParameterCount {
  size_t total, active;
};
ParameterCount count_parameters(const Config& config);

// A Hugging Face checkpoint folder, OpenAI's `original/` folder, one safetensors file beside its config.json, or a GGUF file
// (the first of several), which needs no other. Every tensor is checked by name, dtype and shape; one that the model has no
// use for is refused as well, because then the file is not what its config says. Dense tensors may be BF16 or F32; of a
// GGUF file they are of any type that formats/gguf.h names, and Weights::make is to be called. Throws InputError.
Weights open_weights(const std::filesystem::path& path);

}  // namespace nibble
