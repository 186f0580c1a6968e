#include "model/adapter/peft_adapter.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/errors/error.h"
#include "core/program/log.h"
#include "formats/container_error.h"
#include "model/adapter/targets.h"

namespace nibble {
namespace {

enum class PeftPart { kA, kB, kEmbeddingA, kEmbeddingB, kFrozen };
struct PeftEnding {
  std::string_view text;
  PeftPart part;
};
// PEFT omits the adapter's name from the names of tensors. Some programs keep it: "default".
constexpr PeftEnding kPeftEndings[] = {
    {".lora_A.weight", PeftPart::kA},
    {".lora_B.weight", PeftPart::kB},
    {".lora_A.default.weight", PeftPart::kA},
    {".lora_B.default.weight", PeftPart::kB},
    {".lora_embedding_A", PeftPart::kEmbeddingA},
    {".lora_embedding_B", PeftPart::kEmbeddingB},
    {".lora_embedding_A.default", PeftPart::kEmbeddingA},
    {".lora_embedding_B.default", PeftPart::kEmbeddingB},
    {".base_layer.weight", PeftPart::kFrozen},  // PEFT saves the embedding and lm_head next to their updates
};
// Endings of tensors that nibble does not apply.
struct UnappliedEnding {
  std::string_view text, meaning;
};
constexpr UnappliedEnding kUnapplied[] = {
    {".lora_magnitude_vector", "the magnitudes of DoRA"},
    {".lora_magnitude_vector.weight", "the magnitudes of DoRA"},
    {".lora_B.bias", "a bias of the adapter (lora_bias)"},
    {"trainable_tokens_delta", "replaced rows of the embedding (trainable_token_indices)"},
    {".bias", "a bias that was trained as a whole"},
    {".sinks", "sinks that were trained as a whole"},
    {".weight", "a module that was trained as a whole (modules_to_save)"},
};

constexpr std::string_view kExperts{".mlp.experts"}, kBase{".base_layer"};

struct PeftFactors {  // A [r, in] and B [out, r]; for the embedding [r, V] and [H, r]
  const Tensor *a{nullptr}, *b{nullptr};
  bool is_embedding{false};
};

std::string_view without_prefix(std::string_view name) {
  constexpr std::string_view kPrefix{"base_model.model."};
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return name;
}

std::string_view without_ending(std::string_view name, std::string_view ending) {
  while (name.ends_with(ending)) name.remove_suffix(ending.size());
  return name;
}

class PeftReader {
 public:
  PeftReader(const Container& container, const PeftConfig& peft, const Config& config)
      : container_(container), peft_(peft), config_(config) {}

  std::vector<MatrixUpdate> read() {
    for (const Tensor& tensor : container_.tensors) sort_in(tensor);
    for (const auto& [module, factors] : modules_) {
      if (!factors.a || !factors.b)
        refuse(factors.a ? *factors.a : *factors.b,
               fmt::format("has no partner: '{}' of {} is missing", factors.a ? "lora_B" : "lora_A",
                           in_quotes(module)));
      if (without_ending(module, kBase).ends_with(kExperts))
        fused_.emplace_back(module, factors);
      else
        add_module(module, factors);
    }
    find_order();
    for (const auto& [module, factors] : fused_) add_experts(module, factors);
    return std::move(updates_);
  }

 private:
  using Module = std::pair<std::string, PeftFactors>;

  void sort_in(const Tensor& tensor) {
    const std::string_view name = without_prefix(tensor.name);
    for (const auto& [ending, part] : kPeftEndings) {
      if (!name.ends_with(ending)) continue;
      const std::string module(name.substr(0, name.size() - ending.size()));
      if (part == PeftPart::kFrozen) return check_frozen(tensor, module);
      PeftFactors& factors = modules_[module];
      const Tensor*& place = part == PeftPart::kA || part == PeftPart::kEmbeddingA ? factors.a : factors.b;
      if (place) refuse(tensor, "is there twice, with and without a prefix");
      place = &tensor;
      factors.is_embedding = part == PeftPart::kEmbeddingA || part == PeftPart::kEmbeddingB;
      if (!is_float(tensor.dtype) || tensor.shape.size() != 2)
        refuse(tensor, "is not a matrix of BF16, F16 or F32");
      return;
    }
    for (const auto& [ending, meaning] : kUnapplied)
      if (name.ends_with(ending))
        refuse(tensor, fmt::format("holds {}; nibble does not apply that: merge the adapter with PEFT "
                                   "(merge_and_unload) and give the result as the model",
                                   meaning));
    refuse(tensor, "is not a tensor of a LoRA adapter");
  }

  static bool is_float(DType dtype) {
    return dtype == DType::kBf16 || dtype == DType::kF16 || dtype == DType::kF32;
  }

  // Checks a matrix of the base model that PEFT saved with the adapter. LoRA does not train it, so only its
  // shape is compared: it differs, for example, if the vocabulary was extended.
  void check_frozen(const Tensor& tensor, const std::string& module) const {
    const auto target = target_of_module(module, config_);
    if (!target || target->expert) refuse_module(tensor, module);
    if (tensor.shape != Shape{target->rows, target->cols})
      refuse(tensor,
             fmt::format("is the base model's; the model has [{}, {}] there", target->rows, target->cols));
  }

  void add_module(const std::string& module, const PeftFactors& factors) {
    const auto target = target_of_module(module, config_);
    if (!target || factors.is_embedding != (target->matrix == AdaptedMatrix::kEmbedding))
      refuse_module(*factors.a, module);
    const uint64_t rank = factors.a->shape[0], rows = num_updated_rows(*target);
    const Shape a = factors.is_embedding ? Shape{rank, rows} : Shape{rank, target->cols};
    const Shape b = factors.is_embedding ? Shape{target->cols, rank} : Shape{rows, rank};
    if (rank == 0 || factors.a->shape != a || factors.b->shape != b)
      refuse_shapes(module, factors,
                    factors.is_embedding ? fmt::format("[r, {}] and [{}, r]", rows, target->cols)
                                         : fmt::format("[r, {}] and [{}, r]", target->cols, rows));
    const Factor first{factors.a->dtype, factors.a->data.data(), a[1], 1},
        second{factors.b->dtype, factors.b->data.data(), rank, 1};
    const int own_rank = check_rank(module, rank);
    push(*factors.a, {target->matrix,
                      target->layer,
                      target->expert.value_or(0),
                      {.a = factors.is_embedding ? transposed(second) : first,
                       .b = factors.is_embedding ? transposed(first) : second,
                       .rank = own_rank,
                       .scale = peft_.scale_of(module, own_rank),
                       .first_row = target->first_row,
                       .row_step = target->row_step}});
  }

  // Refuses a second update of the same rows of a matrix under another name. An update of gate changes the
  // even rows of gate_up, an update of up the odd ones.
  void push(const Tensor& tensor, const MatrixUpdate& added) {
    for (int row = added.update.first_row; row < 2; row += added.update.row_step)
      if (!updated_.emplace(added.matrix, added.layer, added.expert, row).second)
        refuse(tensor, fmt::format("is a second update of {}", name_in(added.matrix, added.layer)));
    updates_.push_back(added);
  }

  // Whether the factors fit a matrix of the experts: A is [r, in] and B is [out, r]. With `is_exchanged`,
  // A is [r, out] and B is [in, r].
  bool fits(const PeftFactors& factors, const Target& matrix, bool is_exchanged) const {
    const uint64_t in = is_exchanged ? matrix.rows : matrix.cols;
    const uint64_t out = is_exchanged ? matrix.cols : matrix.rows;
    return factors.a->shape[1] == in && factors.b->shape[0] == out;
  }
  bool fits_any(const PeftFactors& factors, bool is_exchanged) const {
    return fits(factors, target_of(AdaptedMatrix::kGateUp, 0, config_), is_exchanged) ||
           fits(factors, target_of(AdaptedMatrix::kDown, 0, config_), is_exchanged);
  }

  // Sets is_exchanged_. The factors of a square matrix fit in both orders; other factors of the adapter then
  // decide.
  void find_order() {
    const Module* exchanged = nullptr;
    const Module* plain = nullptr;
    for (const Module& module : fused_) {
      const bool fits_plain = fits_any(module.second, false), fits_exchanged = fits_any(module.second, true);
      if (fits_plain && !fits_exchanged) plain = &module;
      if (fits_exchanged && !fits_plain) exchanged = &module;
    }
    if (exchanged && plain)
      refuse(*exchanged->second.a,
             fmt::format("exchanges inputs and outputs, but {} does not", in_quotes(plain->second.a->name)));
    is_exchanged_ = exchanged != nullptr;
    if (!fused_.empty() && !exchanged && !plain)
      log::warn("{}: the shapes of the experts' factors fit in two orders: A is taken to have the inputs",
                container_.files[0].string());
  }

  void add_experts(const std::string& module, const PeftFactors& factors) {
    const std::string_view experts = without_ending(module, kBase);
    const std::string_view layer = experts.substr(0, experts.size() - kExperts.size());
    const auto in_layer = target_of_module(fmt::format("{}.mlp.router", layer), config_);
    if (!in_layer || factors.is_embedding) refuse_module(*factors.a, module);
    const Target up = target_of(AdaptedMatrix::kGateUp, in_layer->layer, config_),
                 down = target_of(AdaptedMatrix::kDown, in_layer->layer, config_);
    const bool is_up = fits(factors, up, is_exchanged_), is_down = fits(factors, down, is_exchanged_);
    const auto num_experts = static_cast<uint64_t>(config_.num_experts);
    const uint64_t all = factors.a->shape[0];
    if (is_up == is_down || all == 0 || all % num_experts != 0 || factors.b->shape[1] != all)
      refuse_shapes(module, factors,
                    fmt::format("[{0} r, {1}] and [{2}, {0} r] for gate_up_proj, or [{0} r, {3}] and [{1}, "
                                "{0} r] for down_proj",
                                num_experts, up.cols, up.rows, down.cols));
    const Target& target = is_up ? up : down;
    const std::string parameter = fmt::format("{}.{}", experts, is_up ? "gate_up_proj" : "down_proj");
    const int rank = check_rank(parameter, all / num_experts);
    const float scale = peft_.scale_of(parameter, rank);
    const size_t a_cols = factors.a->shape[1];
    for (size_t e = 0; e < num_experts; ++e) {
      const size_t a_at = e * static_cast<size_t>(rank) * a_cols;
      const Factor first{factors.a->dtype, at(*factors.a, a_at), a_cols, 1},
          second{factors.b->dtype, at(*factors.b, e), all, num_experts};
      push(*factors.a, {target.matrix,
                        target.layer,
                        static_cast<int>(e),
                        {.a = is_exchanged_ ? transposed(second) : first,
                         .b = is_exchanged_ ? transposed(first) : second,
                         .rank = rank,
                         .scale = scale}});
    }
  }

  static const std::byte* at(const Tensor& tensor, size_t element) {
    return tensor.data.data() + element * static_cast<size_t>(num_bits(tensor.dtype)) / 8;
  }

  int check_rank(std::string_view module, uint64_t rank) const {
    const int expected = peft_.rank_of(module);
    if (rank != static_cast<uint64_t>(expected))
      throw InputError("{}: the tensors of {} have rank {}, but adapter_config.json says {}", file(),
                       in_quotes(module), rank, expected);
    return expected;
  }

  std::string file() const { return container_.files.front().string(); }
  [[noreturn]] void refuse(const Tensor& tensor, const std::string& why) const {
    throw InputError("{}: tensor {} ({} {}) {}", file(), in_quotes(tensor.name), tensor.dtype, tensor.shape,
                     why);
  }
  [[noreturn]] void refuse_module(const Tensor& tensor, const std::string& module) const {
    refuse(tensor, fmt::format("is of a module that the model ({} layers, {} experts) does not have, or that "
                               "has no matrix: {}",
                               config_.num_layers, config_.num_experts, in_quotes(module)));
  }
  [[noreturn]] void refuse_shapes(const std::string& module, const PeftFactors& factors,
                                  const std::string& expected) const {
    throw InputError(
        "{}: A and B of {} are {} and {}; expected {} of rank r: the adapter is for another model", file(),
        in_quotes(module), factors.a->shape, factors.b->shape, expected);
  }

  const Container& container_;
  const PeftConfig& peft_;
  const Config& config_;
  std::map<std::string, PeftFactors> modules_;  // key: module name without prefix and ending
  std::vector<Module> fused_;
  // Updated rows: matrix, layer, expert, and 0 for even rows or 1 for odd rows.
  std::set<std::tuple<AdaptedMatrix, int, int, int>> updated_;
  bool is_exchanged_{false};
  std::vector<MatrixUpdate> updates_;
};

}  // namespace

std::vector<MatrixUpdate> read_peft_tensors(const Container& container, const PeftConfig& peft,
                                            const Config& config) {
  return PeftReader(container, peft, config).read();
}

}  // namespace nibble
