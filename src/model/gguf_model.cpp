#include "model/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "core/buffer.h"
#include "core/error.h"
#include "core/log.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"
#include "model/gguf_config.h"

namespace nibble {
namespace {

struct FieldName {
  std::string_view huggingface, gguf;  // without the layer's prefix
};
constexpr FieldName kNames[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.o_proj.bias", "attn_output.bias"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"mlp.router.weight", "ffn_gate_inp.weight"},
    {"mlp.router.bias", "ffn_gate_inp.bias"},
    {"mlp.experts.gate_up_proj_blocks", "ffn_gate_exps.weight"},
    {"mlp.experts.gate_up_proj_scales", "ffn_gate_exps.weight"},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias"},
    {"mlp.experts.down_proj_blocks", "ffn_down_exps.weight"},
    {"mlp.experts.down_proj_scales", "ffn_down_exps.weight"},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
};
constexpr std::string_view kLayers{"model.layers."}, kGateUp{".mlp.experts.gate_up_proj"};

bool is_experts(const TensorSpec& spec) {
  return spec.kind == TensorKind::kCodes || spec.kind == TensorKind::kScales;
}
bool is_vector(const TensorSpec& spec) { return spec.kind != TensorKind::kDense && !is_experts(spec); }
bool is_gate_up(const TensorSpec& spec) { return spec.name.find(kGateUp) != std::string::npos; }

// A tensor's shape in GGUF, in elements: codes and scales are one matrix for each expert; gate and up have half of
// the rows each.
Shape gguf_shape(const TensorSpec& spec) {
  Shape shape = spec.shape;
  if (is_experts(spec)) shape = {shape[0], shape[1], shape[2] * kMxfp4BlockSize};
  if (is_gate_up(spec)) shape[1] /= 2;
  return shape;
}

size_t row_bytes(GgmlType type, uint64_t cols) { return cols / block_elements(type) * block_bytes(type); }

// The group under which log lines count a tensor.
std::string_view group_of(const TensorSpec& spec) {
  if (is_experts(spec)) return "experts";
  if (is_vector(spec)) return "norms, biases, sinks";
  for (const auto& [part, group] : {std::pair<std::string_view, std::string_view>{"q_proj", "qkv"},
                                    {"k_proj", "qkv"},
                                    {"v_proj", "qkv"},
                                    {"o_proj", "o"},
                                    {"router", "router"},
                                    {"embed_tokens", "embedding"}})
    if (spec.name.find(part) != std::string::npos) return group;
  return "lm_head";
}

}  // namespace

GgufName gguf_name(const TensorSpec& spec) {
  std::string_view field = spec.name;
  std::string prefix;
  if (field.starts_with(kLayers)) {
    const size_t dot = field.find('.', kLayers.size());
    prefix = fmt::format("blk.{}.", field.substr(kLayers.size(), dot - kLayers.size()));
    field.remove_prefix(dot + 1);
  }
  const auto* row = std::ranges::find(kNames, field, &FieldName::huggingface);
  NIBBLE_CHECK(row != std::end(kNames), "no GGUF name for {}", spec.name);
  GgufName name{prefix + std::string(row->gguf), {}};
  if (is_gate_up(spec)) {
    name.up = name.name;
    name.up.replace(name.up.find("gate"), 4, "up");
  }
  return name;
}

GgufModel::GgufModel(const std::filesystem::path& path)
    : gguf_(open_gguf(path)), config_(gguf_config(gguf_)) {
  std::unordered_set<const GgufTensor*> used;
  for (const TensorSpec& spec : tensor_specs(config_)) {
    const Place where = place(spec);
    check(spec, where);
    used.insert({where.tensor, where.up});
  }
  for (const GgufTensor& tensor : gguf_.tensors)
    if (!used.contains(&tensor))
      throw InputError("{}: tensor '{}' has no place in the model that the metadata describe ({} layers)",
                       gguf_.files[tensor.file_index].string(), tensor.name, config_.num_layers);
}

const GgufTensor* GgufModel::find(const std::string& name, const Shape& shape) const {
  const GgufTensor* tensor = gguf_.find(name);
  if (!tensor)
    throw InputError(
        "{}: tensor '{}' is missing among the {} that are there; all files of the model are needed",
        gguf_.files[0].string(), name, gguf_.tensors.size());
  if (tensor->shape != shape)
    throw InputError("{}: tensor '{}' is {} {}, the metadata need {}",
                     gguf_.files[tensor->file_index].string(), name, nibble::name(tensor->type),
                     tensor->shape, shape);
  return tensor;
}

// Some files hold q, k and v as rows of one tensor.
GgufModel::Place GgufModel::place(const TensorSpec& spec) const {
  const GgufName name = gguf_name(spec);
  const Shape shape = gguf_shape(spec);
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

void GgufModel::check(const TensorSpec& spec, const Place& place) const {
  for (const GgufTensor* tensor : {place.tensor, place.up}) {
    if (!tensor) continue;
    const auto refuse = [&](std::string_view what) {
      throw InputError("{}: tensor '{}' is {}; {}", gguf_.files[tensor->file_index].string(), tensor->name,
                       name(tensor->type), what);
    };
    if (is_experts(spec) && tensor->type != GgmlType::kMxfp4)
      refuse("nibble has kernels for experts in MXFP4 alone");
    if (is_vector(spec) && tensor->type != GgmlType::kF32 && tensor->type != GgmlType::kF16 &&
        tensor->type != GgmlType::kBf16)
      refuse("accepted for norms, biases and sinks: F32, F16, BF16");
  }
}

StoredTensor GgufModel::stored(const TensorSpec& spec) const {
  if (is_experts(spec)) return {nullptr, DType::kU8};
  const Place where = place(spec);
  const GgmlType type = where.tensor->type;
  const bool is_as_used = type == GgmlType::kBf16 || (is_vector(spec) && type == GgmlType::kF32);
  if (where.up || !is_as_used) return {nullptr, is_vector(spec) ? DType::kF32 : DType::kBf16};
  const uint64_t cols = is_vector(spec) ? 1 : spec.shape[1];
  return {where.tensor->data.data() + where.first_row * row_bytes(type, cols),
          type == GgmlType::kF32 ? DType::kF32 : DType::kBf16};
}

StoredBlocks GgufModel::blocks(const TensorSpec& spec) const {
  if (is_vector(spec) || spec.kind == TensorKind::kScales) return {};
  const Place where = place(spec);
  const GgmlType type = where.tensor->type;
  const std::string_view group = group_of(spec);
  const bool is_taken = group == "embedding" ? type != GgmlType::kBf16
                        : group == "router"  ? false
                                             : type == GgmlType::kQ8_0 || type == GgmlType::kMxfp4;
  if (!is_taken) return {};
  const uint64_t cols = is_experts(spec) ? spec.shape[2] * kMxfp4BlockSize : spec.shape[1];
  return {type, where.tensor->data.data() + where.first_row * row_bytes(type, cols),
          where.up ? where.up->data.data() : nullptr};
}

size_t GgufModel::num_bytes(const TensorSpec& spec) const {
  return *num_elements(spec.shape) * static_cast<size_t>(num_bits(stored(spec).dtype)) / 8;
}

GgmlType GgufModel::type(const TensorSpec& spec) const { return place(spec).tensor->type; }

size_t GgufModel::file_bytes(const TensorSpec& spec) const {
  if (spec.kind == TensorKind::kScales) return 0;
  const GgmlType type = this->type(spec);
  uint64_t elements = *num_elements(spec.shape);
  if (is_experts(spec)) elements *= 2;
  return elements / block_elements(type) * block_bytes(type);
}

void GgufModel::make_experts(const TensorSpec& codes, std::byte* to_codes, std::byte* to_scales,
                             ThreadPool& pool) const {
  const Place where = place(codes);
  const uint64_t experts = codes.shape[0], rows = codes.shape[1], blocks = codes.shape[2];
  const size_t stored_bytes = row_bytes(GgmlType::kMxfp4, blocks * kMxfp4BlockSize);
  const uint64_t interleaved = where.up ? 2 : 1;
  pool.for_each(static_cast<ptrdiff_t>(experts * rows), [&](ptrdiff_t item, int) {
    // a row index over all experts; each half has half of the rows before it
    const auto row = static_cast<uint64_t>(item);
    const GgufTensor& from = row % interleaved == 0 ? *where.tensor : *where.up;
    std::span<uint8_t> row_codes, row_scales;
    if (to_codes)
      row_codes = {reinterpret_cast<uint8_t*>(to_codes) + row * blocks * kMxfp4CodeBytes,
                   blocks * kMxfp4CodeBytes};
    if (to_scales) row_scales = {reinterpret_cast<uint8_t*>(to_scales) + row * blocks, blocks};
    unpack_mxfp4(from.data.subspan(row / interleaved * stored_bytes, stored_bytes), row_codes, row_scales);
  });
}

bool GgufModel::make(const TensorSpec& spec, std::byte* to, ThreadPool& pool) const {
  if (spec.kind == TensorKind::kCodes) return make_experts(spec, to, nullptr, pool), true;
  if (spec.kind == TensorKind::kScales) {
    TensorSpec codes = spec;
    codes.kind = TensorKind::kCodes;
    return make_experts(codes, nullptr, to, pool), true;
  }
  const Place where = place(spec);
  const GgmlType type = where.tensor->type;
  if (is_vector(spec)) {  // to F32, which is exact
    const size_t count = *num_elements(spec.shape);
    auto* values = reinterpret_cast<float*>(to);
    if (!where.up) {
      const size_t first = row_bytes(type, where.first_row);
      dequantise(type, where.tensor->data.subspan(first, row_bytes(type, count)), {values, count});
      return true;
    }
    std::vector<float> half(count / 2);
    for (const size_t i : {0u, 1u}) {
      const GgufTensor& from = i == 0 ? *where.tensor : *where.up;
      dequantise(from.type, from.data, half);
      for (size_t j = 0; j < half.size(); ++j) values[2 * j + i] = half[j];
    }
    return true;
  }
  const uint64_t rows = spec.shape[0], cols = spec.shape[1];
  const size_t stored_bytes = row_bytes(type, cols);
  std::vector<std::vector<float>> wide(static_cast<size_t>(pool.num_threads()), std::vector<float>(cols));
  std::atomic<bool> is_exact{true};
  pool.for_each(static_cast<ptrdiff_t>(rows), [&](ptrdiff_t item, int thread) {
    const auto row = static_cast<uint64_t>(item);
    const std::span<float> values = wide[static_cast<size_t>(thread)];
    dequantise(type, where.tensor->data.subspan((where.first_row + row) * stored_bytes, stored_bytes),
               values);
    auto* narrow = reinterpret_cast<Bf16*>(to) + row * cols;
    bool is_row_exact = true;
    for (size_t i = 0; i < cols; ++i) {
      narrow[i] = to_bf16(values[i]);
      is_row_exact &= to_float(narrow[i]) == values[i];
    }
    if (!is_row_exact) is_exact = false;
  });
  return is_exact;
}

namespace {

// The storage of a model from a GGUF file: the mapped file and the tensors converted from it.
struct Made {
  struct Part {
    TensorSpec spec;
    Buffer bytes;
    bool has_blocks;  // or, of scales, their codes have
    bool is_made{false};
  };

  explicit Made(const std::filesystem::path& path) : model(path) {}

  void make(ThreadPool& pool, const ReportProgress& report, MakeWhat what);

  GgufModel model;
  std::vector<Part> parts;  // in the order of tensor_specs(): scales follow their codes
  std::mutex mutex;
};

struct Group {
  size_t num_tensors{0}, bytes_before{0}, bytes_after{0};
  bool is_exact{true};
};

void Made::make(ThreadPool& pool, const ReportProgress& report, MakeWhat what) {
  const std::lock_guard lock(mutex);
  const auto is_due = [&](const Part& part) {
    return !part.is_made && (what == MakeWhat::kAll || !part.has_blocks);
  };
  std::map<std::pair<std::string_view, std::string_view>, Group> groups;
  size_t total = 0, done = 0;
  for (const Part& part : parts) total += is_due(part) ? part.bytes.bytes() : 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts[i];
    if (!is_due(part)) continue;
    part.is_made = true;
    Group& group = groups[{group_of(part.spec), name(model.type(part.spec))}];
    if (part.spec.kind == TensorKind::kCodes) {
      model.make_experts(part.spec, part.bytes.data(), parts[i + 1].bytes.data(), pool);
    } else if (part.spec.kind != TensorKind::kScales) {
      group.is_exact &= model.make(part.spec, part.bytes.data(), pool);
    }
    group.num_tensors += part.spec.kind != TensorKind::kScales;
    group.bytes_before += model.file_bytes(part.spec);
    group.bytes_after += part.bytes.bytes();
    done += part.bytes.bytes();
    if (report) report(done, total);
  }
  for (const auto& [key, group] : groups) {
    const auto& [tensors, type] = key;
    const bool is_repacked = tensors == "experts", is_wide = tensors.starts_with("norms");
    log::info("{}: {} tensors of {} {}, {}, {} bytes to {}", tensors, group.num_tensors, type,
              is_repacked ? "repacked"
              : is_wide   ? "to F32"
                          : "to BF16",
              group.is_exact ? "the same numbers" : "rounded to nearest", group.bytes_before,
              group.bytes_after);
  }
}

}  // namespace

TensorSource open_gguf_source(const std::filesystem::path& path) {
  struct Opened {
    explicit Opened(const std::filesystem::path& file) : model(file) {}
    GgufModel model;
    ThreadPool pool{0};
  };
  const auto opened = std::make_shared<Opened>(path);
  const auto read = [opened](const TensorSpec& spec, Buffer& room) {
    StoredTensor stored = opened->model.stored(spec);
    if (stored.data) return stored;
    const size_t bytes = opened->model.num_bytes(spec);
    if (room.bytes() < bytes) room = Buffer(bytes);
    if (!opened->model.make(spec, room.data(), opened->pool))
      log::info("{}: {} to BF16, rounded to nearest", spec.name, name(opened->model.type(spec)));
    return StoredTensor{room.data(), stored.dtype};
  };
  return {.config = opened->model.config(),
          .name = path.string(),
          .dtype = [opened](const TensorSpec& spec) { return opened->model.stored(spec).dtype; },
          .read = read};
}

Weights open_gguf_weights(const std::filesystem::path& path) {
  const auto made = std::make_shared<Made>(path);
  const GgufModel& model = made->model;
  Weights weights = bind_weights(model.config(), [&](const TensorSpec& spec) {
    StoredTensor stored = model.stored(spec);
    if (stored.data) return stored;
    const StoredBlocks blocks = model.blocks(spec);
    const bool has_blocks = spec.kind == TensorKind::kScales || blocks.rows;
    made->parts.push_back({spec, Buffer(model.num_bytes(spec)), has_blocks});
    return StoredTensor{made->parts.back().bytes.data(), stored.dtype, blocks};
  });
  weights.source = path.string();
  weights.make = [made](ThreadPool& pool, const ReportProgress& report, MakeWhat what) {
    made->make(pool, report, what);
  };
  weights.is_mapped = true;
  weights.storage = made;
  return weights;
}

}  // namespace nibble
