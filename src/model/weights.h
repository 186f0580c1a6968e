// Weights of a model from any source: shapes and views of data. Linear weights are [out, in]: y = x W^T + b.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/errors/check.h"
#include "core/files/mapped_file.h"
#include "core/numbers/bf16.h"
#include "core/tensors/dtype.h"
#include "core/tensors/shape.h"
#include "formats/gguf.h"
#include "model/config.h"

namespace nibble {

// How elements are stored. kQ8_0 exists only in Blocks. The last two are only for activations: kMxfp8 is E4M3
// with an E8M0 scale per 32 elements; a kMxfp8x2 number is the sum of two kMxfp8 numbers.
enum class Format { kF32, kBf16, kMxfp4, kE4m3, kQ8_0, kMxfp8, kMxfp8x2 };
std::string_view name(Format format);
// Returns the bytes of `num_elements` consecutive elements of a row, including the scales of blocks.
size_t num_bytes(Format format, size_t num_elements);
// Returns the bytes of a matrix: its elements and, for kE4m3, its row scales.
size_t matrix_bytes(Format format, size_t rows, size_t cols);

struct Vector {  // float32 or bfloat16: norm weights, a bias, or sinks
  const void* data = nullptr;
  Format format = Format::kBf16;  // kF32 or kBf16
  int count = 0;
  float operator[](ptrdiff_t i) const {
    return format == Format::kF32 ? static_cast<const float*>(data)[i]
                                  : to_float(static_cast<const Bf16*>(data)[i]);
  }
};

// Elements in memory, row-major. kMxfp4: codes, 16 bytes per 32 elements, the even element in the low nibble.
// kE4m3: one byte per element; element (r, c) is e4m3(data[r * cols + c]) * row_scales[r]. Kernels apply the
// scale once, to a finished dot product.
struct Elements {
  Format format{Format::kBf16};
  const void* data{nullptr};
  const uint8_t* scales{nullptr};    // kMxfp4 only: an E8M0 byte per 32 elements
  const float* row_scales{nullptr};  // kE4m3 only, [rows]: the factor of each row
};

// Consecutive rows in blocks of a ggml type, as stored in a GGUF file (formats/ggml_blocks.h).
struct Blocks {
  GgmlType type{GgmlType::kQ8_0};
  const std::byte* rows{nullptr};
  const std::byte* odd_rows{nullptr};  // if set, the odd rows; `rows` then has only the even ones
};
std::span<const std::byte> row_of(const Blocks& blocks, size_t row, size_t cols);

// Random bytes: 64-bit word i is (random_bits(seed, i) & mask) + base (core/numbers/random.h).
struct RandomWords {
  uint64_t seed{0}, mask{0}, base{0};
};
struct Recipe {  // a description of elements to generate; a device generates them in its own memory
  Format format{Format::kBf16};
  RandomWords data{}, scales{};  // the bytes of Elements::data and, for kMxfp4, of Elements::scales
};

struct ForeignMatrix;  // a matrix as another program quantised it (formats/foreign_matrix.h)

// Some or all rows of each expert. `type` is a ggml type, BF16, F16 or F32, or U8: MXFP4 codes, with one
// scale per block in `scales`, as in OpenAI's checkpoints. If `foreign` is set, it holds the rows and the
// other fields are not used.
struct ExpertTensor {
  std::variant<DType, GgmlType> type{DType::kBf16};
  std::vector<const std::byte*> experts{};  // [E]: the first element of each expert
  // [E], for U8: E8M0 bytes [rows, cols / 32] of each expert. Empty for other types.
  std::vector<const std::byte*> scales{};
  bool is_transposed{false};  // stored as [cols, rows]; only BF16, F16 and F32
  std::shared_ptr<const std::vector<ForeignMatrix>> foreign{};  // [E], all in one layout
};

struct ExpertUpdates;  // what LoRA adapters add to the experts of a layer (model/adapter/low_rank.h)

// Experts that cannot be used as a file stores them: no kernel reads their type or order, or adapters change
// them. model/convert_experts.h turns them into Elements or Blocks when a model is loaded.
struct StoredExperts {
  ExpertTensor rows{};                             // all rows; if `odd_rows` is set, only the even ones
  std::optional<ExpertTensor> odd_rows{};          // up, if gate and up are two tensors
  Format becomes{Format::kBf16};                   // format after convert_experts()
  bool is_exact{false};                            // whether that conversion changes no value
  std::shared_ptr<const ExpertUpdates> updates{};  // added before any conversion; null: none
};
std::string_view type_name(const ExpertTensor& tensor);  // "BF16", "Q8_0", "MXFP4"
std::string type_name(const StoredExperts& stored);      // "Q4_1 and MXFP4" if gate and up differ

struct Matrix {
  int rows{0}, cols{0};
  // monostate: a backend has copied the matrix into its own layout, and only the shape is left here.
  // StoredExperts: experts that must be converted; they describe all experts of a layer.
  // ForeignMatrix: a dense matrix that must be converted.
  std::variant<std::monostate, Elements, Blocks, Recipe, std::shared_ptr<const StoredExperts>,
               std::shared_ptr<const ForeignMatrix>>
      stored{};

  const Elements& elements() const;  // checks that `stored` holds Elements
  const Blocks* blocks() const { return std::get_if<Blocks>(&stored); }
  const StoredExperts* experts() const;  // null unless `stored` holds them
  const ForeignMatrix* foreign() const;  // likewise
  bool is_gone() const { return std::holds_alternative<std::monostate>(stored); }
  // For StoredExperts and ForeignMatrix: the format that they become. For blocks of a type that Format lacks:
  // kBf16.
  Format format() const;
};
// Name of the type in which the matrix is stored: a Format, a ggml type or, for StoredExperts and
// ForeignMatrix, the type in the file.
std::string stored_name(const Matrix& matrix);
// Format that a dense matrix has after convert_blocks() (model/convert_blocks.h). Elements keep their format.
Format converted_format(const Matrix& matrix);

struct ExpertMatrices {  // E consecutive matrices of one shape and format, each with its bias vector
  Matrix first;          // matrix of expert 0; the other experts' matrices follow without gaps
  Vector first_bias;     // bias of expert 0; the other experts' biases follow without gaps
  Matrix matrix(int expert) const;  // not available for generated weights (Recipe)
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
  // Keeps the experts' codes and scales alive, if they are allocated per layer: a backend that has packed a
  // layer can then free its originals. Null: Weights::storage keeps them alive.
  std::shared_ptr<const void> experts_storage;
};

struct Weights {
  Config config;
  Matrix embedding;  // [V, H]
  std::vector<LayerWeights> layers;
  Vector final_norm;   // [H]
  Matrix unembedding;  // [V, H]

  // Mapped files of the matrices. A backend can drop pages that it has copied (core/files/mapped_file.h).
  MappedFiles files;
  bool is_mapped() const { return !files.empty(); }
  std::string source;                   // the model's name in messages: a path, or "synthetic:gpt-oss-20b"
  std::shared_ptr<const void> storage;  // keeps mapped files and allocated bytes alive
};
bool has_blocks(const Weights& weights);  // whether any matrix is stored as Blocks or a ForeignMatrix

enum class TensorKind { kNorm, kBias, kSinks, kDense, kCodes, kScales };

struct TensorSpec {  // one tensor of a model, in Hugging Face's naming
  std::string name;
  TensorKind kind;
  DType dtype;  // type in the released models: U8 for kCodes and kScales, else BF16
  Shape shape;
  size_t num_bytes;
};
std::vector<TensorSpec> tensor_specs(const Config& config);
size_t total_bytes(const std::vector<TensorSpec>& specs);

// Numbers of parameters, without scales. `active`: those that one token reads, with one row of the embedding.
struct ParameterCount {
  size_t total, active;
};
ParameterCount count_parameters(const Config& config);

// Opens a Hugging Face checkpoint folder, OpenAI's `original/` folder, a safetensors file next to its
// config.json, or a GGUF file. Checks every tensor by name, dtype and shape, and refuses unknown tensors.
// Dense tensors may be BF16, F16 (these become Blocks), F32, or in the layout of another program
// (ForeignMatrix). In Hugging Face's naming, q, k, v, o and lm_head may also be F8_E4M3. In a GGUF file,
// dense tensors may have any type in formats/gguf.h (Blocks unless BF16). Experts that are not MXFP4 become
// StoredExperts. Throws InputError.
Weights open_weights(const std::filesystem::path& path, FileAccess access = FileAccess::kMap);

}  // namespace nibble
