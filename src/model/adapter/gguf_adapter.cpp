#include "model/adapter/gguf_adapter.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/errors/error.h"
#include "formats/container_error.h"
#include "formats/ggml_blocks.h"
#include "model/adapter/targets.h"

namespace nibble {
namespace {

constexpr std::string_view kA{".lora_a"}, kB{".lora_b"};

struct GgufFactors {
  const GgufTensor *a{nullptr}, *b{nullptr};
};

class GgufReader {
 public:
  GgufReader(const Gguf& gguf, const Config& config) : gguf_(gguf), config_(config) {}

  GgufUpdates read() {
    check_metadata();
    std::map<std::string, GgufFactors> all;
    for (const GgufTensor& tensor : gguf_.tensors) {
      const std::string_view name = tensor.name;
      if (!name.ends_with(kA) && !name.ends_with(kB))
        refuse(tensor, "is not of a low-rank update (.lora_a, .lora_b), and nibble does not apply it");
      GgufFactors& factors = all[std::string(name.substr(0, name.size() - kA.size()))];
      (name.ends_with(kA) ? factors.a : factors.b) = &tensor;
    }
    for (const auto& [name, factors] : all) {
      if (!factors.a || !factors.b)
        refuse(factors.a ? *factors.a : *factors.b, "has no partner: the other factor is missing");
      add(name, factors);
    }
    return std::move(found_);
  }

 private:
  void check_metadata() {
    must_be("general.type", "adapter");
    must_be("adapter.type", "lora");
    const GgufValue* architecture = gguf_.value("general.architecture");
    if (!architecture || architecture->text() != kOllamaArchitecture)
      must_be("general.architecture", "gpt-oss");
    if (gguf_.value("adapter.alora.invocation_tokens"))
      throw InputError(
          "{}: it is an activated LoRA, which starts at certain tokens of a prompt; nibble does not apply "
          "that",
          file());
    const GgufValue* alpha = gguf_.value("adapter.lora.alpha");
    const auto number = alpha ? alpha->number() : std::nullopt;
    constexpr double kMostAlpha{1e6};
    if (!number || !(std::abs(*number) <= kMostAlpha))
      throw InputError("{}: adapter.lora.alpha is missing or not a number up to {}", file(), kMostAlpha);
    alpha_ = *number;
  }

  void must_be(std::string_view key, std::string_view text) const {
    const GgufValue* value = gguf_.value(key);
    const auto found = value ? value->text() : std::nullopt;
    if (found != text)
      throw InputError("{}: not a LoRA adapter of gpt-oss: {} is {}; expected {:?}", file(), key,
                       found ? in_quotes(*found) : "missing", text);
  }

  void add(const std::string& name, const GgufFactors& factors) {
    const auto target = target_of_gguf(name, config_);
    if (!target)
      refuse(*factors.a,
             fmt::format("is of a matrix that the model ({} layers) does not have", config_.num_layers));
    const bool is_embedding = target->matrix == AdaptedMatrix::kEmbedding;
    const bool is_of_experts =
        target->matrix == AdaptedMatrix::kGateUp || target->matrix == AdaptedMatrix::kDown;
    const uint64_t rows = num_updated_rows(*target),
                   rank = factors.b->shape.empty() ? 0 : factors.b->shape.back();
    constexpr uint64_t kMostRank{1 << 16};
    Shape a = is_embedding ? Shape{rows, rank} : Shape{rank, target->cols};
    Shape b = is_embedding ? Shape{target->cols, rank} : Shape{rows, rank};
    const auto experts = static_cast<uint64_t>(is_of_experts ? config_.num_experts : 1);
    if (is_of_experts)
      for (Shape* shape : {&a, &b}) shape->insert(shape->begin(), experts);
    if (rank == 0 || rank > kMostRank || factors.a->shape != a || factors.b->shape != b)
      throw InputError(
          "{}: the factors of {} are {} and {}, which do not fit the matrix [{}, {}]: the adapter is for "
          "another model",
          file(), in_quotes(name), factors.a->shape, factors.b->shape, rows, target->cols);
    const Factor first = factor(*factors.a), second = factor(*factors.b);
    for (size_t e = 0; e < experts; ++e) {
      const Factor own_a = part(first, e * (a[a.size() - 1] * a[a.size() - 2])),
                   own_b = part(second, e * rows * rank);
      found_.updates.push_back(
          {target->matrix,
           target->layer,
           static_cast<int>(e),
           {.a = is_embedding ? transposed(own_b) : own_a,
            .b = is_embedding ? own_a : own_b,
            .rank = static_cast<int>(rank),
            .scale = alpha_ == 0 ? 1.0F : static_cast<float>(alpha_ / static_cast<double>(rank)),
            .first_row = target->first_row,
            .row_step = target->row_step}});
    }
  }

  // The tensor in place, or decoded if it is in blocks.
  Factor factor(const GgufTensor& tensor) {
    const size_t cols = tensor.shape.back();
    if (tensor.type == GgmlType::kF32) return {DType::kF32, tensor.data.data(), cols, 1};
    if (tensor.type == GgmlType::kF16) return {DType::kF16, tensor.data.data(), cols, 1};
    if (tensor.type == GgmlType::kBf16) return {DType::kBf16, tensor.data.data(), cols, 1};
    const size_t count = *num_elements(tensor.shape);
    Buffer& values = found_.decoded.emplace_back(count * sizeof(float));
    dequantise(tensor.type, tensor.data, {values.as<float>(), count});
    return {DType::kF32, values.data(), cols, 1};
  }

  // The factor that begins `elements` elements later.
  static Factor part(Factor factor, size_t elements) {
    factor.data += elements * static_cast<size_t>(num_bits(factor.type)) / 8;
    return factor;
  }

  std::string file() const { return gguf_.files.front().string(); }
  [[noreturn]] void refuse(const GgufTensor& tensor, const std::string& why) const {
    throw InputError("{}: tensor {} ({} {}) {}", file(), in_quotes(tensor.name), name(tensor.type),
                     tensor.shape, why);
  }

  const Gguf& gguf_;
  const Config& config_;
  double alpha_{0};
  GgufUpdates found_;
};

}  // namespace

GgufUpdates read_gguf_adapter(const Gguf& gguf, const Config& config) {
  return GgufReader(gguf, config).read();
}

}  // namespace nibble
