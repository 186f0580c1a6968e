// Finds a checkpoint's tensors by Hugging Face's or OpenAI's names. Refuses tensors unfit for its config.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/errors/error.h"
#include "core/numbers/bf16.h"
#include "core/numbers/f16.h"
#include "core/program/log.h"
#include "core/tensors/buffer.h"
#include "core/threads/thread_pool.h"
#include "formats/foreign_matrix.h"
#include "formats/ggml_blocks.h"
#include "formats/open_container.h"
#include "model/bind_weights.h"
#include "model/checkpoint/adapter_folder.h"
#include "model/checkpoint/float_experts.h"
#include "model/checkpoint/foreign_layers.h"
#include "model/checkpoint/gguf_model.h"
#include "model/checkpoint/mxfp4_experts.h"
#include "model/checkpoint/other_tensors.h"
#include "model/checkpoint/split_experts.h"
#include "model/checkpoint/tensor_names.h"
#include "model/config.h"
#include "model/convert_blocks.h"
#include "model/foreign_formats.h"
#include "model/quantization_fields.h"
#include "model/weights.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

// Rows of a stored tensor, from `first_row` on, that hold one tensor of the model.
struct StoredRows {
  std::string name;
  Shape shape;
  uint64_t first_row;
};

StoredRows huggingface_rows(const TensorSpec& spec, const Config&) { return {spec.name, spec.shape, 0}; }

// Returns a tensor's name and rows in OpenAI's format: "model.layers.7.self_attn.sinks" becomes
// "block.7.attn.sinks". q, k and v are rows of one stored tensor.
StoredRows openai_rows(const TensorSpec& spec, const Config& config) {
  const TensorName name = tensor_name(spec.name);
  if (name.layer.empty()) return {std::string(name.openai), spec.shape, 0};
  StoredRows stored{fmt::format("block.{}.{}", name.layer, name.openai), spec.shape, 0};

  const auto rows = [&](int num_heads) { return static_cast<uint64_t>(num_heads * config.head_dim); };
  const uint64_t q_rows = rows(config.num_heads), kv_rows = rows(config.num_kv_heads);
  if (stored.name.find(".attn.qkv.") != std::string::npos) stored.shape[0] = q_rows + 2 * kv_rows;
  if (name.huggingface.starts_with("self_attn.k_proj")) stored.first_row = q_rows;
  if (name.huggingface.starts_with("self_attn.v_proj")) stored.first_row = q_rows + kv_rows;
  return stored;
}

struct Naming {
  std::string_view recognised_by;
  StoredRows (*rows_of)(const TensorSpec& spec, const Config& config);
  bool has_fp8;  // whether matrices may be F8_E4M3, with scales under kWeightScale
};
constexpr Naming kNamings[] = {
    {"model.embed_tokens.weight", &huggingface_rows, true},
    {"embedding.weight", &openai_rows, false},
};

// Matrices that may be F8_E4M3: the layers for which backends have FP8 kernels.
constexpr std::string_view kFp8Layers[] = {"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj.",
                                           "self_attn.o_proj.", "lm_head."};
// Names of tensors next to LAYER.weight: the scales of an F8_E4M3 matrix, and of its input.
constexpr std::string_view kWeight{"weight"}, kWeightScale{"weight_scale"}, kInputScale{"input_scale"};

// Locates tensors in a container. Refuses a container with tensors that the model does not use.
class Checkpoint {
 public:
  Checkpoint(const Container& container, const Config& config, const ForeignRules& rules, std::string source)
      : container_(container), config_(config), rules_(rules), source_(std::move(source)) {
    for (const Naming& naming : kNamings)
      if (!naming_ && container.find(naming.recognised_by)) naming_ = &naming;
    if (!naming_) refuse_wrapped(container, kNamings[0].recognised_by);
    if (!naming_)
      throw InputError("{}: not a gpt-oss checkpoint: it has neither '{}' (Hugging Face) nor '{}' (OpenAI)",
                       source_, kNamings[0].recognised_by, kNamings[1].recognised_by);
  }

  // Returns the experts whose codes or scales `spec` describes, if they have another type than MXFP4; null if
  // they are MXFP4 or absent.
  std::shared_ptr<const StoredExperts> locate_experts(const TensorSpec& spec) {
    const StoredRows stored = naming_->rows_of(spec, config_);
    if (spec.dtype != DType::kU8 || container_.find(stored.name)) return nullptr;
    const auto found = find_float_experts(container_, spec, stored.name, rules_);
    if (!found) return nullptr;
    used_.insert(found->tensors.begin(), found->tensors.end());
    return std::make_shared<const StoredExperts>(found->experts);
  }

  // Returns a dense matrix that another program quantised; null for all others.
  std::shared_ptr<const ForeignMatrix> locate_foreign(const TensorSpec& spec) {
    if (spec.kind != TensorKind::kDense || !naming_->has_fp8) return nullptr;
    const Tensor* weight = container_.find(spec.name);
    if (weight && weight->dtype == DType::kF8E4M3) return nullptr;  // locate() reads it
    const ForeignModule module{
        .name = spec.name.substr(0, spec.name.size() - kWeight.size() - 1),
        .rows = spec.shape[0],
        .cols = spec.shape[1],
    };
    const auto found = find_foreign(container_, module, rules_);
    if (!found) return nullptr;
    used_.insert(found->tensors.begin(), found->tensors.end());
    return std::make_shared<const ForeignMatrix>(found->matrices.front());
  }

  // Returns the tensor as stored, which may be F16; as_used() converts that. Biases of experts in separate
  // tensors are joined into F32.
  StoredTensor locate(const TensorSpec& spec) {
    const StoredRows stored = naming_->rows_of(spec, config_);
    const Tensor* tensor = container_.find(stored.name);
    if (!tensor) tensor = container_.find(split_name(stored.name));
    if (!tensor && spec.kind == TensorKind::kBias)
      if (auto biases = find_split_biases(container_, spec)) {
        used_.insert(biases->tensors.begin(), biases->tensors.end());
        return {made_.emplace_back(std::move(biases->values)).data(), DType::kF32};
      }
    if (!tensor) refuse_missing(stored);
    const bool is_code = spec.dtype == DType::kU8, takes_fp8 = may_be_fp8(spec);
    const bool is_fp8 = takes_fp8 && tensor->dtype == DType::kF8E4M3;
    const bool is_wide = tensor->dtype == DType::kF32 || tensor->dtype == DType::kF16;
    const bool fits_dtype = tensor->dtype == spec.dtype || (!is_code && is_wide) || is_fp8;
    if (!fits_dtype || tensor->shape != stored.shape)
      throw InputError("{}: tensor '{}' is {} {}; config.json requires {} {}", file_of(*tensor), stored.name,
                       tensor->dtype, tensor->shape,
                       is_code     ? "U8"
                       : takes_fp8 ? "BF16, F16, F32 or F8_E4M3"
                                   : "BF16, F16 or F32",
                       stored.shape);
    used_.insert(tensor);
    const size_t row_bytes = tensor->data.size() / stored.shape[0];
    return {tensor->data.data() + stored.first_row * row_bytes, tensor->dtype,
            is_fp8 ? row_scales(*tensor) : nullptr};
  }

  void refuse_unused() const {
    for (const Tensor& tensor : container_.tensors)
      if (const std::string_view meaning = unusable_meaning(tensor.name);
          !meaning.empty() && !used_.contains(&tensor))
        throw InputError("{}: tensor '{}' holds {}", file_of(tensor), tensor.name, meaning);
    for (const Tensor& tensor : container_.tensors)
      if (!used_.contains(&tensor) && !is_derived(tensor.name))
        throw InputError(
            "{}: {} of {} tensors are not part of the model that config.json describes ({} layers), for "
            "example '{}': the tensors and config.json are of different models",
            file_of(tensor), container_.tensors.size() - used_.size(), container_.tensors.size(),
            config_.num_layers, tensor.name);
  }
  // Returns the memory of tensors that locate() has converted or put together: row scales, biases.
  std::vector<Buffer> take_made() { return std::move(made_); }

 private:
  bool may_be_fp8(const TensorSpec& spec) const {
    return naming_->has_fp8 && spec.kind == TensorKind::kDense &&
           std::ranges::any_of(kFp8Layers, [&](std::string_view layer) {
             return spec.name.ends_with(fmt::format("{}{}", layer, kWeight));
           });
  }

  // Returns a scale for each row of an F8_E4M3 matrix. The file has one for all rows, or one per row. The
  // scale of the input, if any, has no effect: inputs are not quantised.
  const float* row_scales(const Tensor& matrix) {
    const std::string layer = matrix.name.substr(0, matrix.name.size() - kWeight.size());
    const std::string name = fmt::format("{}{}", layer, kWeightScale);
    const Tensor* stored = container_.find(name);
    if (!stored)
      throw InputError("{}: tensor '{}' is F8_E4M3, but the tensor of its scales, '{}', is missing",
                       file_of(matrix), matrix.name, name);
    const uint64_t rows = matrix.shape[0];
    const bool is_one = stored->shape == Shape{} || stored->shape == Shape{1};
    const bool is_float = stored->dtype == DType::kBf16 || stored->dtype == DType::kF32;
    if (!is_float || !(is_one || stored->shape == Shape{rows} || stored->shape == Shape{rows, 1}))
      throw InputError("{}: tensor '{}' is {} {}; expected BF16 or F32 [1] or [{}, 1]", file_of(*stored),
                       name, stored->dtype, stored->shape, rows);
    const Vector scales{stored->data.data(), stored->dtype == DType::kF32 ? Format::kF32 : Format::kBf16,
                        static_cast<int>(is_one ? 1 : rows)};
    for (int i = 0; i < scales.count; ++i)
      if (!(scales[i] > 0 && std::isfinite(scales[i])))
        throw InputError("{}: value {} of tensor '{}' is {}; expected a positive number", file_of(*stored), i,
                         name, scales[i]);
    used_.insert(stored);
    if (const Tensor* input = container_.find(fmt::format("{}{}", layer, kInputScale))) used_.insert(input);
    float* of_rows = made_.emplace_back(rows * sizeof(float)).as<float>();
    for (uint64_t row = 0; row < rows; ++row) of_rows[row] = scales[is_one ? 0 : static_cast<ptrdiff_t>(row)];
    return of_rows;
  }

  std::string file_of(const Tensor& tensor) const { return container_.files[tensor.file_index].string(); }

  [[noreturn]] void refuse_missing(const StoredRows& stored) const {
    for (const Tensor& tensor : container_.tensors)
      if (const std::string_view writer = foreign_writer(tensor.name); !writer.empty())
        throw InputError("{}: tensor '{}' is one of {}: {}", file_of(tensor), tensor.name, writer,
                         kInsteadOfForeign);
    throw InputError(
        "{}: tensor '{}' is missing ({} tensors are present); all files of the checkpoint are needed, and "
        "the config.json of the same model",
        source_, stored.name, container_.tensors.size());
  }

  const Container& container_;
  const Config& config_;
  ForeignRules rules_;
  std::string source_;
  const Naming* naming_{nullptr};
  std::vector<Buffer> made_;
  std::unordered_set<const Tensor*> used_;
};

Config config_beside(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  std::error_code error;
  if (!fs::exists(file, error)) {
    refuse_adapter(folder);
    throw InputError("{}: no config.json next to the tensors", folder.string());
  }
  return read_config(file);
}

ForeignRules rules_beside(const fs::path& folder) {
  return {.gptq_zero_offset = read_gptq_zero_offset(folder / "config.json")};
}

// F16 is converted as in a GGUF file: matrices to BF16, to nearest even; vectors to F32.
DescribedTensor as_used(const TensorSpec& spec, const StoredTensor& stored, std::vector<Buffer>& vectors) {
  if (stored.dtype != DType::kF16) return stored;
  const auto* data = static_cast<const std::byte*>(stored.data);
  if (spec.kind == TensorKind::kDense) return Blocks{.type = GgmlType::kF16, .rows = data};
  const size_t count = *num_elements(spec.shape);
  Buffer& vector = vectors.emplace_back(count * sizeof(float));
  dequantise(GgmlType::kF16, {data, count * sizeof(F16)}, {vector.as<float>(), count});
  return StoredTensor{vector.data(), DType::kF32};
}

// Like as_used(), but converts matrices immediately, into `room`.
StoredTensor in_room(const TensorSpec& spec, const StoredTensor& stored, Buffer& room, ThreadPool& pool) {
  std::vector<Buffer> vectors;
  const DescribedTensor described = as_used(spec, stored, vectors);
  if (const auto* blocks = std::get_if<Blocks>(&described)) {
    const size_t bytes = *num_elements(spec.shape) * sizeof(Bf16);
    if (room.bytes() < bytes) room = Buffer(bytes);
    to_bf16(*blocks, spec.shape[0], spec.shape[1], room.as<Bf16>(), pool);
    return {room.data(), DType::kBf16};
  }
  if (!vectors.empty()) room = std::move(vectors.front());
  return std::get<StoredTensor>(described);
}

StoredTensor in_room(const TensorSpec& spec, const ForeignMatrix& matrix, Buffer& room, ThreadPool& pool) {
  const size_t bytes = *num_elements(spec.shape) * sizeof(Bf16);
  if (room.bytes() < bytes) room = Buffer(bytes);
  if (!to_bf16(matrix, spec.shape[0], room.as<Bf16>(), pool))
    log::info("{}: {} to BF16, rounded to nearest", spec.name, name(matrix));
  return {room.data(), DType::kBf16};
}

DType used_dtype(const TensorSpec& spec, DType stored) {
  return stored != DType::kF16 ? stored : spec.kind == TensorKind::kDense ? DType::kBf16 : DType::kF32;
}

}  // namespace

TensorSource open_source(const fs::path& path, ExpertRounding rounding) {
  if (is_gguf(path)) return open_gguf_source(path, rounding);
  const bool is_folder = fs::is_directory(path);
  struct Opened {
    Container container;
    Config config;
    ThreadPool pool{0};
  };
  const auto opened = std::make_shared<Opened>();
  opened->container = is_folder ? open_container_folder(path) : open_container(path);
  opened->config = config_beside(is_folder ? path : fs::absolute(path).parent_path());
  const auto checkpoint = std::make_shared<Checkpoint>(
      opened->container, opened->config, rules_beside(is_folder ? path : fs::absolute(path).parent_path()),
      path.string());
  const auto experts = std::make_shared<Mxfp4Experts>(path.string(), rounding);
  for (const TensorSpec& spec : tensor_specs(opened->config)) {
    if (const auto stored = checkpoint->locate_experts(spec))
      experts->check(spec, *stored);
    else if (checkpoint->locate_foreign(spec))
      continue;
    else if (checkpoint->locate(spec).row_scales)
      throw InputError("{}: tensor '{}' is F8_E4M3, which nibble runs but does not convert", path.string(),
                       spec.name);
  }
  checkpoint->refuse_unused();
  return {.config = opened->config,
          .name = path.string(),
          .dtype =
              [opened, checkpoint](const TensorSpec& spec) {
                if (checkpoint->locate_experts(spec)) return DType::kU8;
                if (checkpoint->locate_foreign(spec)) return DType::kBf16;
                return used_dtype(spec, checkpoint->locate(spec).dtype);
              },
          .read =
              [opened, checkpoint, experts](const TensorSpec& spec, Buffer& room) {
                if (const auto stored = checkpoint->locate_experts(spec))
                  return experts->read(spec, *stored, room);
                if (const auto foreign = checkpoint->locate_foreign(spec))
                  return in_room(spec, *foreign, room, opened->pool);
                return in_room(spec, checkpoint->locate(spec), room, opened->pool);
              }};
}

Weights open_weights(const fs::path& path, FileAccess access) {
  std::error_code error;
  if (!fs::exists(path, error)) throw InputError("{}: no such file or folder", path.string());
  if (is_gguf(path)) return open_gguf_weights(path, access);
  const bool is_folder = fs::is_directory(path, error);
  const Container container = is_folder ? open_container_folder(path, access) : open_container(path, access);
  const fs::path folder = is_folder ? path : fs::absolute(path).parent_path();
  const Config config = config_beside(folder);

  Checkpoint checkpoint(container, config, rules_beside(folder), path.string());
  std::vector<Buffer> vectors;
  Weights weights = bind_weights(config, [&](const TensorSpec& spec) -> DescribedTensor {
    if (auto experts = checkpoint.locate_experts(spec)) return experts;
    if (auto foreign = checkpoint.locate_foreign(spec)) return foreign;
    return as_used(spec, checkpoint.locate(spec), vectors);
  });
  checkpoint.refuse_unused();
  weights.source = path.string();
  struct Storage {
    std::shared_ptr<const void> files;
    std::vector<Buffer> made, vectors;
  };
  weights.storage =
      std::make_shared<Storage>(Storage{container.storage, checkpoint.take_made(), std::move(vectors)});
  weights.files = container.mapped;
  return weights;
}

}  // namespace nibble
