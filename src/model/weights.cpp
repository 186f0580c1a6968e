// Sizes of formats, access to the matrices of experts, and the list of a model's tensors.
#include "model/weights.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "formats/foreign_matrix.h"
#include "formats/mxfp4.h"

namespace nibble {
namespace {

// Storage of rows in a format: elements per block, and bytes per block including its scale.
struct FormatRow {
  Format format;
  std::string_view name;
  size_t block_elements, block_bytes;
};
constexpr FormatRow kFormats[] = {
    // In the order of Format.
    {Format::kF32, "F32", 1, 4},
    {Format::kBf16, "BF16", 1, 2},
    {Format::kMxfp4, "MXFP4", kMxfp4BlockSize, kMxfp4CodeBytes + 1},
    {Format::kE4m3, "FP8", 1, 1},
    {Format::kQ8_0, "Q8_0", 32, 34},
    {Format::kMxfp8, "MXFP8", 32, 33},
    {Format::kMxfp8x2, "MXFP8x2", 32, 66},
};

const FormatRow& row(Format format) {
  const auto index = static_cast<size_t>(format);
  NIBBLE_CHECK(index < std::size(kFormats) && kFormats[index].format == format, "format {}", index);
  return kFormats[index];
}

}  // namespace

std::string_view name(Format format) { return row(format).name; }

size_t num_bytes(Format format, size_t num_elements) {
  const FormatRow& layout = row(format);
  NIBBLE_CHECK(num_elements % layout.block_elements == 0, "{} elements are not whole blocks of {}",
               num_elements, layout.name);
  return num_elements / layout.block_elements * layout.block_bytes;
}

size_t matrix_bytes(Format format, size_t rows, size_t cols) {
  return num_bytes(format, rows * cols) + (format == Format::kE4m3 ? rows * sizeof(float) : 0);
}

std::span<const std::byte> row_of(const Blocks& blocks, size_t row, size_t cols) {
  const size_t row_bytes = cols / block_elements(blocks.type) * block_bytes(blocks.type);
  if (!blocks.odd_rows) return {blocks.rows + row * row_bytes, row_bytes};
  return {(row % 2 == 0 ? blocks.rows : blocks.odd_rows) + row / 2 * row_bytes, row_bytes};
}

const Elements& Matrix::elements() const {
  const auto* elements = std::get_if<Elements>(&stored);
  NIBBLE_CHECK(elements, "a matrix [{}, {}] without elements", rows, cols);
  return *elements;
}

const StoredExperts* Matrix::experts() const {
  const auto* experts = std::get_if<std::shared_ptr<const StoredExperts>>(&stored);
  return experts ? experts->get() : nullptr;
}

const ForeignMatrix* Matrix::foreign() const {
  const auto* foreign = std::get_if<std::shared_ptr<const ForeignMatrix>>(&stored);
  return foreign ? foreign->get() : nullptr;
}

Format Matrix::format() const {
  if (const auto* recipe = std::get_if<Recipe>(&stored)) return recipe->format;
  if (const StoredExperts* experts = this->experts()) return experts->becomes;
  if (foreign()) return Format::kBf16;
  const Blocks* blocks = this->blocks();
  if (!blocks) return elements().format;
  return blocks->type == GgmlType::kQ8_0 ? Format::kQ8_0
         : is_mxfp4(blocks->type)        ? Format::kMxfp4
                                         : Format::kBf16;
}

std::string_view type_name(const ExpertTensor& tensor) {
  if (tensor.foreign) return name(tensor.foreign->front());
  if (const auto* ggml = std::get_if<GgmlType>(&tensor.type)) return name(*ggml);
  const DType dtype = std::get<DType>(tensor.type);
  return dtype == DType::kU8 ? "MXFP4" : name(dtype);
}

std::string type_name(const StoredExperts& stored) {
  const std::string_view even = type_name(stored.rows);
  if (!stored.odd_rows || type_name(*stored.odd_rows) == even) return std::string(even);
  return fmt::format("{} and {}", even, type_name(*stored.odd_rows));
}

std::string stored_name(const Matrix& matrix) {
  if (const StoredExperts* experts = matrix.experts()) return type_name(*experts);
  if (const ForeignMatrix* foreign = matrix.foreign()) return std::string(name(*foreign));
  return std::string(matrix.blocks() ? name(matrix.blocks()->type) : name(matrix.format()));
}

Format converted_format(const Matrix& matrix) { return matrix.blocks() ? Format::kBf16 : matrix.format(); }

bool has_blocks(const Weights& weights) {
  const auto is_one = [](const Matrix& matrix) { return matrix.blocks() || matrix.foreign(); };
  if (is_one(weights.embedding) || is_one(weights.unembedding)) return true;
  for (const LayerWeights& layer : weights.layers)
    for (const Matrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router, &layer.gate_up.first, &layer.down.first})
      if (is_one(*matrix)) return true;
  return false;
}

Matrix ExpertMatrices::matrix(int expert) const {
  const auto cols = static_cast<size_t>(first.cols);
  const size_t first_row = static_cast<size_t>(expert) * static_cast<size_t>(first.rows);
  Matrix matrix = first;
  if (auto* blocks = std::get_if<Blocks>(&matrix.stored)) {
    const Blocks all = *blocks;
    blocks->rows = row_of(all, first_row, cols).data();
    if (all.odd_rows) blocks->odd_rows = row_of(all, first_row + 1, cols).data();
    return matrix;
  }
  Elements elements = first.elements();
  const size_t first_element = first_row * cols;
  const auto* bytes = static_cast<const std::byte*>(elements.data);
  if (elements.format == Format::kMxfp4) {
    const size_t first_block = first_element / kMxfp4BlockSize;
    elements.data = bytes + first_block * kMxfp4CodeBytes;
    elements.scales += first_block;
  } else {
    elements.data = bytes + num_bytes(elements.format, first_element);
    if (elements.row_scales) elements.row_scales += first_row;
  }
  matrix.stored = elements;
  return matrix;
}

Vector ExpertMatrices::bias(int expert) const {
  Vector bias = first_bias;
  const size_t first_element = static_cast<size_t>(expert) * static_cast<size_t>(bias.count);
  bias.data = static_cast<const std::byte*>(bias.data) + num_bytes(bias.format, first_element);
  return bias;
}

std::vector<TensorSpec> tensor_specs(const Config& config) {
  NIBBLE_CHECK(config.layer_kinds.size() == static_cast<size_t>(config.num_layers), "{} kinds for {} layers",
               config.layer_kinds.size(), config.num_layers);
  using enum TensorKind;
  const auto extent = [](int size) { return static_cast<uint64_t>(size); };
  const uint64_t h = extent(config.hidden), i = extent(config.intermediate), e = extent(config.num_experts),
                 v = extent(config.vocab), nq = extent(config.num_heads),
                 q_rows = nq * extent(config.head_dim),
                 kv_rows = extent(config.num_kv_heads) * extent(config.head_dim);

  std::vector<TensorSpec> specs;
  const auto add = [&](std::string name, TensorKind kind, Shape shape) {
    const DType dtype = kind == kCodes || kind == kScales ? DType::kU8 : DType::kBf16;
    const size_t bytes = *num_elements(shape) * static_cast<size_t>(num_bits(dtype)) / 8;
    specs.push_back({std::move(name), kind, dtype, std::move(shape), bytes});
  };
  const auto add_linear = [&](const std::string& name, uint64_t out, uint64_t in) {
    add(name + ".weight", kDense, {out, in});
    add(name + ".bias", kBias, {out});
  };
  const uint64_t own = extent(config.experts().count);
  const auto add_experts = [&](const std::string& name, uint64_t out, uint64_t in) {
    add(name + "_blocks", kCodes, {own, out, in / kMxfp4BlockSize, kMxfp4CodeBytes});
    add(name + "_scales", kScales, {own, out, in / kMxfp4BlockSize});
    add(name + "_bias", kBias, {own, out});
  };

  add("model.embed_tokens.weight", kDense, {v, h});
  for (int n = 0; n < config.num_layers; ++n) {
    const std::string layer = fmt::format("model.layers.{}.", n);
    add(layer + "input_layernorm.weight", kNorm, {h});
    add_linear(layer + "self_attn.q_proj", q_rows, h);
    add_linear(layer + "self_attn.k_proj", kv_rows, h);
    add_linear(layer + "self_attn.v_proj", kv_rows, h);
    add(layer + "self_attn.sinks", kSinks, {nq});
    add_linear(layer + "self_attn.o_proj", h, q_rows);
    add(layer + "post_attention_layernorm.weight", kNorm, {h});
    add_linear(layer + "mlp.router", e, h);
    add_experts(layer + "mlp.experts.gate_up_proj", 2 * i, h);
    add_experts(layer + "mlp.experts.down_proj", h, i);
  }
  add("model.norm.weight", kNorm, {h});
  add("lm_head.weight", kDense, {v, h});
  return specs;
}

size_t total_bytes(const std::vector<TensorSpec>& specs) {
  size_t bytes{0};
  for (const TensorSpec& spec : specs) bytes += spec.num_bytes;
  return bytes;
}

ParameterCount count_parameters(const Config& config) {
  const auto [experts, chosen] =
      std::pair(static_cast<size_t>(config.num_experts), static_cast<size_t>(config.experts_per_token));
  ParameterCount count{0, 0};
  for (const TensorSpec& spec : tensor_specs(config)) {
    if (spec.kind == TensorKind::kScales) continue;
    const size_t parameters = *num_elements(spec.shape) * (spec.kind == TensorKind::kCodes ? 2 : 1);
    const bool is_of_experts = spec.name.find(".experts.") != std::string::npos;
    const bool is_embedding = spec.name == "model.embed_tokens.weight";
    count.total += parameters;
    count.active += is_of_experts  ? parameters / experts * chosen
                    : is_embedding ? static_cast<size_t>(config.hidden)
                                   : parameters;
  }
  return count;
}

}  // namespace nibble
