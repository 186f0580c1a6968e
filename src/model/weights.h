// The weights of a model from any source: shapes, and views of what is stored. Linear weights are [out, in]: y = x W^T + b.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/bf16.h"
#include "core/check.h"
#include "core/dtype.h"
#include "core/mapped_file.h"
#include "core/shape.h"
#include "formats/gguf.h"
#include "model/config.h"

namespace nibble {

// The elements of a matrix or a vector are stored in one of these. kQ8_0 exists in Blocks only; kMxfp8, E4M3 with an E8M0 scale for each
// 32, and kMxfp8x2, the sum of two of them, of activations only.
enum class Format { kF32, kBf16, kMxfp4, kE4m3, kQ8_0, kMxfp8, kMxfp8x2 };
std::string_view name(Format format);
// Bytes of `num_elements` consecutive elements of a row, including the scales of blocks.
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

// Elements in memory, row-major. kMxfp4: `data` has the codes, 16 bytes for 32 elements with the even element in the low
// nibble. kE4m3: `data` has a byte for each element, and element (r, c) is e4m3(data[r cols + c]) * row_scales[r]; a
// product with a row is scaled once, at its end.
struct Elements {
  Format format{Format::kBf16};
  const void* data{nullptr};
  const uint8_t* scales{nullptr};    // of kMxfp4: an E8M0 byte for each 32 elements
  const float* row_scales{nullptr};  // of kE4m3: [rows]
};

// Consecutive rows in blocks of a ggml type, as a GGUF file stores them (formats/ggml_blocks.h).
struct Blocks {
  GgmlType type{GgmlType::kQ8_0};
  const std::byte* rows{nullptr};
  const std::byte* odd_rows{nullptr};  // if set, it has every second row, and `rows` has the even ones
};
// Row r of a matrix of `cols` columns.
std::span<const std::byte> row_of(const Blocks& blocks, size_t row, size_t cols);

// Random bytes: word i of 64 bits is (random_bits(seed, i) & mask) + base (core/random.h).
struct RandomWords {
  uint64_t seed{0}, mask{0}, base{0};
};
// Elements that are not in memory: whoever needs them generates them. A device generates them in its own memory.
struct Recipe {
  Format format{Format::kBf16};
  RandomWords data{}, scales{};  // the bytes of Elements::data and, of kMxfp4, of Elements::scales
};

// A weight matrix, described in one of three ways.
struct Matrix {
  int rows{0}, cols{0};
  // Nothing: only the shape is left of a matrix that a backend has copied into a layout of its own.
  std::variant<std::monostate, Elements, Blocks, Recipe> stored{};

  const Elements& elements() const;  // the matrix must have them
  const Blocks* blocks() const { return std::get_if<Blocks>(&stored); }
  bool is_gone() const { return std::holds_alternative<std::monostate>(stored); }
  // Blocks of a type that Format lacks count as kBf16, which they are converted to.
  Format format() const;
};
// The name of what is stored: that of a Format, or of a ggml type.
std::string_view stored_name(const Matrix& matrix);
// The format of a dense matrix whose blocks, if it has any, are converted (model/convert_blocks.h).
Format converted_format(const Matrix& matrix);

// E consecutive matrices of one shape and format, with a bias vector each.
struct ExpertMatrices {
  Matrix first;                     // of expert 0, which the others follow without gaps
  Vector first_bias;                // likewise
  Matrix matrix(int expert) const;  // not of a recipe
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
  // Keeps the experts' codes and scales alive if they are allocated layer by layer: a backend that has packed a layer
  // can free them. Null: Weights::storage keeps them.
  std::shared_ptr<const void> experts_storage;
};

struct Weights {
  Config config;
  Matrix embedding;  // [V, H]
  std::vector<LayerWeights> layers;
  Vector final_norm;   // [H]
  Matrix unembedding;  // [V, H]

  // The files, if any, that the matrices are mapped from, except for those that were converted: a backend that has copied one can
  // release or drop its pages (core/mapped_file.h).
  MappedFiles files;
  bool is_mapped() const { return !files.empty(); }
  std::string source;                   // for messages: a path, or "synthetic:gpt-oss-20b"
  std::shared_ptr<const void> storage;  // keeps mapped files and allocated bytes alive
};
bool has_blocks(const Weights& weights);  // of any matrix

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

// Opens a Hugging Face checkpoint folder, OpenAI's `original/` folder, one safetensors file beside its config.json, or a GGUF file
// (the first of several), which needs no other. Every tensor is checked by name, dtype and shape; one that the model has no
// use for is refused as well, because then the file is not what its config says. Dense tensors may be BF16 or F32; those
// of a GGUF file may have any type that formats/gguf.h names, and are blocks unless they are BF16. Throws InputError.
Weights open_weights(const std::filesystem::path& path);

}  // namespace nibble
