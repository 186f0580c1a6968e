#include "model/checkpoint/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "core/errors/error.h"
#include "core/program/log.h"
#include "core/tensors/buffer.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"
#include "model/checkpoint/gguf_config.h"
#include "model/checkpoint/mxfp4_experts.h"
#include "model/checkpoint/tensor_names.h"
#include "model/convert_blocks.h"

namespace nibble {
namespace {

struct OllamaName {
  std::string_view llama_cpp, ollama;  // parts of a tensor's name that differ in files of Ollama's converter
};
constexpr OllamaName kOllamaNames[] = {
    {".attn_sinks.weight", ".attn_sinks"},
    {".attn_output.", ".attn_out."},
    {".post_attention_norm.", ".ffn_norm."},
};

// Tensors that belong to NAME.weight in NVFP4: NAME.scale and NAME.input_scale. Some programs write
// NAME.weight.scale and NAME.weight.input_scale.
constexpr std::string_view kFactor{"scale"}, kFactorOfInput{"input_scale"}, kWeightOf{"weight"};
constexpr std::string_view kGateUp{".mlp.experts.gate_up_proj"};

bool is_experts(const TensorSpec& spec) {
  return spec.kind == TensorKind::kCodes || spec.kind == TensorKind::kScales;
}
bool is_vector(const TensorSpec& spec) { return spec.kind != TensorKind::kDense && !is_experts(spec); }
bool is_gate_up(const TensorSpec& spec) { return spec.name.find(kGateUp) != std::string::npos; }

// Returns the shape of a tensor in GGUF, in elements. For experts, codes and scales are one tensor, gate and
// up are two.
Shape gguf_shape(const TensorSpec& spec) {
  Shape shape = spec.shape;
  if (is_experts(spec)) shape = {shape[0], shape[1], shape[2] * kMxfp4BlockSize};
  if (is_gate_up(spec)) shape[1] /= 2;
  return shape;
}

size_t row_bytes(GgmlType type, uint64_t cols) { return cols / block_elements(type) * block_bytes(type); }

}  // namespace

GgufName gguf_name(const TensorSpec& spec) {
  const TensorName names = tensor_name(spec.name);
  GgufName name{
      names.layer.empty() ? std::string(names.gguf) : fmt::format("blk.{}.{}", names.layer, names.gguf), {}};
  if (is_gate_up(spec)) {
    name.up = name.name;
    name.up.replace(name.up.find("gate"), 4, "up");
  }
  return name;
}

GgufModel::GgufModel(const std::filesystem::path& path, FileAccess access)
    : gguf_(open_gguf(path, access)), config_(gguf_config(gguf_)) {
  std::unordered_set<const GgufTensor*> used;
  for (const TensorSpec& spec : tensor_specs(config_)) {
    const GgufRows rows = rows_of(spec);
    check(spec, rows);
    for (const GgufTensor* tensor : {rows.tensor, rows.up})
      if (tensor && tensor->type == GgmlType::kNvfp4)
        used.insert({beside(*tensor, kFactor), beside(*tensor, kFactorOfInput)});
    used.insert({rows.tensor, rows.up});
  }
  for (const GgufTensor& tensor : gguf_.tensors)
    if (!used.contains(&tensor))
      throw InputError(
          "{}: unexpected tensor '{}': the model that the metadata describe ({} layers) does not use it",
          gguf_.files[tensor.file_index].string(), tensor.name, config_.num_layers);
}

const GgufTensor* GgufModel::find(const std::string& name, const Shape& shape) const {
  const GgufTensor* tensor = gguf_.find(name);
  if (!tensor)
    throw InputError("{}: tensor '{}' is missing ({} tensors are present); all files of the model are needed",
                     gguf_.files[0].string(), name, gguf_.tensors.size());
  if (tensor->shape != shape)
    throw InputError("{}: tensor '{}' is {} {}; the metadata require {}",
                     gguf_.files[tensor->file_index].string(), name, nibble::name(tensor->type),
                     tensor->shape, shape);
  return tensor;
}

std::string GgufModel::name_in_file(const std::string& name) const {
  if (!is_of_ollama(gguf_) || gguf_.find(name)) return name;
  for (const OllamaName& row : kOllamaNames) {
    const size_t at = name.find(row.llama_cpp);
    if (at == std::string::npos) continue;
    std::string other = name;
    other.replace(at, row.llama_cpp.size(), row.ollama);
    if (gguf_.find(other)) return other;
  }
  return name;
}

// Some files hold q, k and v as rows of one tensor. Some of Ollama's files hold gate and up as rows of one
// tensor.
GgufModel::GgufRows GgufModel::rows_of(const TensorSpec& spec) const {
  GgufName name = gguf_name(spec);
  Shape shape = gguf_shape(spec);
  name.name = name_in_file(name.name);
  if (is_gate_up(spec) && is_of_ollama(gguf_) && !gguf_.find(name.name)) {
    name.name.replace(name.name.find("gate"), 4, "gate_up");
    shape[1] *= 2;
    return {find(name.name, shape), 0, nullptr};
  }
  constexpr std::string_view kSeparate[] = {"attn_q.", "attn_k.", "attn_v."};
  const auto rows = [&](int num_heads) { return static_cast<uint64_t>(num_heads * config_.head_dim); };
  const uint64_t first_rows[] = {0, rows(config_.num_heads), rows(config_.num_heads + config_.num_kv_heads)};
  for (size_t i = 0; i < std::size(kSeparate) && !gguf_.find(name.name); ++i) {
    const size_t at = name.name.find(kSeparate[i]);
    if (at == std::string::npos) continue;
    std::string fused = name.name;
    fused.replace(at, kSeparate[i].size(), "attn_qkv.");
    if (!gguf_.find(fused)) break;
    Shape all = shape;
    all[0] = rows(config_.num_heads + 2 * config_.num_kv_heads);
    return {find(fused, all), first_rows[i], nullptr};
  }
  return {find(name.name, shape), 0, name.up.empty() ? nullptr : find(name.up, shape)};
}

void GgufModel::check(const TensorSpec& spec, const GgufRows& rows) const {
  for (const GgufTensor* tensor : {rows.tensor, rows.up}) {
    if (!tensor) continue;
    const auto refuse = [&](std::string_view what) {
      throw InputError("{}: tensor '{}' is {}; {}", gguf_.files[tensor->file_index].string(), tensor->name,
                       name(tensor->type), what);
    };
    if (is_vector(spec) && tensor->type != GgmlType::kF32 && tensor->type != GgmlType::kF16 &&
        tensor->type != GgmlType::kBf16)
      refuse("norms, biases and sinks must be F32, F16 or BF16");
  }
}

StoredTensor GgufModel::stored(const TensorSpec& spec) const {
  if (is_experts(spec)) return {nullptr, DType::kU8};
  const GgufRows rows = rows_of(spec);
  const GgmlType type = rows.tensor->type;
  const bool is_as_used = type == GgmlType::kBf16 || (is_vector(spec) && type == GgmlType::kF32);
  if (rows.up || !is_as_used) return {nullptr, is_vector(spec) ? DType::kF32 : DType::kBf16};
  const uint64_t cols = is_vector(spec) ? 1 : spec.shape[1];
  return {rows.tensor->data.data() + rows.first_row * row_bytes(type, cols),
          type == GgmlType::kF32 ? DType::kF32 : DType::kBf16};
}

std::shared_ptr<const StoredExperts> GgufModel::experts(const TensorSpec& spec) const {
  if (!is_experts(spec)) return nullptr;
  const GgufRows rows = rows_of(spec);
  const auto is_as_used = [](const GgufTensor* tensor) { return !tensor || is_mxfp4(tensor->type); };
  if (is_as_used(rows.tensor) && is_as_used(rows.up) && (!rows.up || rows.up->type == rows.tensor->type))
    return nullptr;
  const int count = static_cast<int>(spec.shape[0]);
  StoredExperts stored{.rows = expert_tensor(*rows.tensor, count)};
  if (rows.up) stored.odd_rows = expert_tensor(*rows.up, count);
  return std::make_shared<const StoredExperts>(std::move(stored));
}

const GgufTensor* GgufModel::beside(const GgufTensor& weight, std::string_view ending) const {
  if (!weight.name.ends_with(kWeightOf)) return nullptr;
  const std::string name = weight.name.substr(0, weight.name.size() - kWeightOf.size());
  const GgufTensor* tensor = gguf_.find(fmt::format("{}{}", name, ending));
  return tensor ? tensor : gguf_.find(fmt::format("{}.{}", weight.name, ending));
}

std::vector<float> GgufModel::factors_of(const GgufTensor& weight, size_t count) const {
  const GgufTensor* scale = weight.type == GgmlType::kNvfp4 ? beside(weight, kFactor) : nullptr;
  if (!scale) return {};
  const std::optional<uint64_t> elements = num_elements(scale->shape);
  const auto refuse = [&](const std::string& what) {
    throw InputError("{}: tensor '{}' {}; expected positive F32 numbers, 1 or {}",
                     gguf_.files[scale->file_index].string(), scale->name, what, count);
  };
  if (scale->type != GgmlType::kF32 || (elements != 1 && elements != count))
    refuse(fmt::format("is {} {}", name(scale->type), scale->shape));
  std::vector<float> factors(*elements);
  std::memcpy(factors.data(), scale->data.data(), factors.size() * sizeof(float));
  for (const float factor : factors)
    if (!(factor > 0 && std::isfinite(factor))) refuse(fmt::format("has the value {}", factor));
  factors.resize(count, factors[0]);
  return factors;
}

ExpertTensor GgufModel::expert_tensor(const GgufTensor& tensor, int count) const {
  const auto experts = static_cast<size_t>(count);
  const size_t bytes = tensor.data.size() / experts;
  const std::vector<float> factors = factors_of(tensor, experts);
  if (factors.empty()) return {.type = tensor.type, .experts = consecutive(tensor.data.data(), bytes, count)};
  std::vector<ForeignMatrix> matrices;
  for (size_t e = 0; e < experts; ++e)
    matrices.push_back({.layout = ForeignLayout::kNvfp4Blocks,
                        .rows = tensor.shape[1],
                        .cols = tensor.shape[2],
                        .codes = tensor.data.data() + e * bytes,
                        .factor = factors[e]});
  return {.foreign = std::make_shared<const std::vector<ForeignMatrix>>(std::move(matrices))};
}

std::shared_ptr<const ForeignMatrix> GgufModel::foreign(const TensorSpec& spec) const {
  if (spec.kind != TensorKind::kDense) return nullptr;
  const GgufRows rows = rows_of(spec);
  const std::vector<float> factors = factors_of(*rows.tensor, 1);
  if (factors.empty()) return nullptr;
  const size_t bytes = row_bytes(rows.tensor->type, spec.shape[1]);
  return std::make_shared<const ForeignMatrix>(
      ForeignMatrix{.layout = ForeignLayout::kNvfp4Blocks,
                    .rows = spec.shape[0],
                    .cols = spec.shape[1],
                    .codes = rows.tensor->data.data() + rows.first_row * bytes,
                    .factor = factors[0]});
}

Blocks GgufModel::blocks(const TensorSpec& spec) const {
  const GgufRows rows = rows_of(spec);
  const GgmlType type = rows.tensor->type;
  const uint64_t cols = is_experts(spec) ? spec.shape[2] * kMxfp4BlockSize : spec.shape[1];
  return {type, rows.tensor->data.data() + rows.first_row * row_bytes(type, cols),
          rows.up ? rows.up->data.data() : nullptr};
}

size_t GgufModel::num_bytes(const TensorSpec& spec) const {
  return *num_elements(spec.shape) * static_cast<size_t>(num_bits(stored(spec).dtype)) / 8;
}

GgmlType GgufModel::type(const TensorSpec& spec) const { return rows_of(spec).tensor->type; }

bool GgufModel::convert(const TensorSpec& spec, std::byte* to, ThreadPool& pool) const {
  if (is_experts(spec)) {
    const uint64_t rows = spec.shape[0] * spec.shape[1], cols = spec.shape[2] * kMxfp4BlockSize;
    auto* bytes = reinterpret_cast<uint8_t*>(to);
    const auto output =
        spec.kind == TensorKind::kCodes ? Mxfp4Output{.codes = bytes} : Mxfp4Output{.scales = bytes};
    to_mxfp4(blocks(spec), rows, cols, output, pool);
    return true;
  }
  if (const auto matrix = foreign(spec))
    return to_bf16(*matrix, spec.shape[0], reinterpret_cast<Bf16*>(to), pool);
  if (!is_vector(spec))
    return to_bf16(blocks(spec), spec.shape[0], spec.shape[1], reinterpret_cast<Bf16*>(to), pool);
  convert_vector(spec, reinterpret_cast<float*>(to));
  return true;
}

void GgufModel::convert_vector(const TensorSpec& spec, float* values) const {
  const GgufRows rows = rows_of(spec);
  const GgmlType type = rows.tensor->type;
  const size_t count = *num_elements(spec.shape);
  if (!rows.up) {
    const size_t first = row_bytes(type, rows.first_row);
    dequantise(type, rows.tensor->data.subspan(first, row_bytes(type, count)), {values, count});
    return;
  }
  std::vector<float> half(count / 2);
  for (const size_t i : {0u, 1u}) {
    const GgufTensor& from = i == 0 ? *rows.tensor : *rows.up;
    dequantise(from.type, from.data, half);
    for (size_t j = 0; j < half.size(); ++j) values[2 * j + i] = half[j];
  }
}

TensorSource open_gguf_source(const std::filesystem::path& path, ExpertRounding rounding) {
  struct Opened {
    explicit Opened(const std::filesystem::path& file) : model(file) {}
    GgufModel model;
    ThreadPool pool{0};
  };
  const auto opened = std::make_shared<Opened>(path);
  const auto experts = std::make_shared<Mxfp4Experts>(path.string(), rounding);
  for (const TensorSpec& spec : tensor_specs(opened->model.config()))
    if (const auto stored = opened->model.experts(spec)) experts->check(spec, *stored);
  const auto read = [opened, experts](const TensorSpec& spec, Buffer& room) {
    if (const auto others = opened->model.experts(spec)) return experts->read(spec, *others, room);
    StoredTensor stored = opened->model.stored(spec);
    if (stored.data) return stored;
    const size_t bytes = opened->model.num_bytes(spec);
    if (room.bytes() < bytes) room = Buffer(bytes);
    if (!opened->model.convert(spec, room.data(), opened->pool))
      log::info("{}: {} to BF16, rounded to nearest", spec.name, name(opened->model.type(spec)));
    return StoredTensor{room.data(), stored.dtype};
  };
  return {.config = opened->model.config(),
          .name = path.string(),
          .dtype = [opened](const TensorSpec& spec) { return opened->model.stored(spec).dtype; },
          .read = read};
}

Weights open_gguf_weights(const std::filesystem::path& path, FileAccess access) {
  struct Opened {
    Opened(const std::filesystem::path& file, FileAccess how) : model(file, how) {}
    GgufModel model;
    std::vector<Buffer> vectors;
  };
  const auto opened = std::make_shared<Opened>(path, access);
  const GgufModel& model = opened->model;
  Weights weights = bind_weights(model.config(), [&](const TensorSpec& spec) -> DescribedTensor {
    const StoredTensor stored = model.stored(spec);
    if (auto experts = model.experts(spec)) return experts;
    if (stored.data || spec.kind == TensorKind::kScales) return stored;
    if (auto foreign = model.foreign(spec)) return foreign;
    if (!is_vector(spec)) return model.blocks(spec);
    Buffer& vector = opened->vectors.emplace_back(model.num_bytes(spec));
    model.convert_vector(spec, vector.as<float>());
    return StoredTensor{vector.data(), stored.dtype};
  });
  weights.source = path.string();
  weights.files = model.gguf().mapped;
  weights.storage = opened;
  return weights;
}

}  // namespace nibble
