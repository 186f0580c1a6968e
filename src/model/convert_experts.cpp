#include "model/convert_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/numbers/as_size.h"
#include "core/numbers/bf16.h"
#include "core/numbers/e4m3.h"
#include "core/program/log.h"
#include "core/text/bytes_text.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"
#include "model/quantize.h"
#include "model/stored_experts.h"

namespace nibble {
namespace {

// Calls visit(rows, values) for all rows of all experts, kExpertRows at a time, on all threads. Once visit()
// has returned false, skips the rest and returns false; otherwise returns true.
template <typename Visit>
bool for_each_rows(const StoredExperts& stored, const Matrix& first, int num_experts, ThreadPool& pool,
                   const Visit& visit) {
  const int groups = (first.rows + kExpertRows - 1) / kExpertRows;
  const size_t cols = as_size(first.cols);
  std::vector<std::vector<float>> room(as_size(pool.num_threads()),
                                       std::vector<float>(as_size(kExpertRows) * cols));
  std::atomic<bool> goes_on{true};
  pool.for_each(ptrdiff_t{1} * num_experts * groups, [&](ptrdiff_t item, int thread) {
    if (!goes_on) return;
    const int expert = static_cast<int>(item / groups);
    const int first_row = static_cast<int>(item % groups) * kExpertRows;
    const ExpertRows rows{expert, first_row, std::min(kExpertRows, first.rows - first_row)};
    const std::span<float> values = std::span(room[as_size(thread)]).first(as_size(rows.count) * cols);
    read_rows(stored, first, rows, values);
    if (!visit(rows, std::span<const float>(values))) goes_on = false;
  });
  return goes_on;
}

// Returns the format that stores the same values as the file's type; nullopt if no format does.
std::optional<Format> own_format(const StoredExperts& stored) {
  if (has_foreign(stored)) return std::nullopt;
  if (stored.odd_rows && stored.odd_rows->type != stored.rows.type) return std::nullopt;
  if (const auto* ggml = std::get_if<GgmlType>(&stored.rows.type)) {
    if (*ggml == GgmlType::kBf16) return Format::kBf16;
    if (*ggml == GgmlType::kF32) return Format::kF32;
    if (*ggml == GgmlType::kQ8_0) return Format::kQ8_0;
    return is_mxfp4(*ggml) ? std::optional(Format::kMxfp4) : std::nullopt;
  }
  switch (std::get<DType>(stored.rows.type)) {
    case DType::kU8:
      return Format::kMxfp4;
    case DType::kBf16:
      return Format::kBf16;
    case DType::kF32:
      return Format::kF32;
    default:
      return std::nullopt;
  }
}

// Formats of --experts, smallest first.
constexpr std::pair<std::string_view, Format> kTargets[]{
    {"mxfp4", Format::kMxfp4}, {"fp8", Format::kE4m3}, {"q8_0", Format::kQ8_0}, {"bf16", Format::kBf16}};

// Returns the formats that the backend runs, as "mxfp4 (12.7 GB), fp8 (23.9 GB)".
std::string targets_text(const Config& config, const ExpertRules& rules) {
  std::string text;
  for (const auto& [flag, format] : kTargets)
    if (rules.runs(format))
      text +=
          fmt::format("{}{} ({})", text.empty() ? "" : ", ", flag, bytes_text(expert_bytes(config, format)));
  return text;
}

class Decider {
 public:
  Decider(const Weights& weights, const ExpertRules& rules, ThreadPool& pool)
      : weights_(weights), rules_(rules), pool_(pool) {}

  void decide(Matrix& first) const {
    const int num_experts = weights_.config.experts().count;
    const StoredExperts* in_file = first.experts();
    const bool stays_mxfp4 = !rules_.asked || *rules_.asked == Format::kMxfp4;
    if (!in_file && (stays_mxfp4 || std::holds_alternative<Recipe>(first.stored))) return;
    const auto described = in_file ? std::optional(*in_file) : stored_experts(first, num_experts);
    NIBBLE_CHECK(described, "experts of {}", stored_name(first));
    StoredExperts stored = *described;
    const std::optional<Format> own = own_format(stored);
    const bool is_changed = stored.updates != nullptr;
    const bool is_mxfp4 = stays_mxfp4 && is_exactly_mxfp4(stored, first, num_experts, pool_);
    if (!rules_.asked && !is_mxfp4 && rules_.takes_any_blocks) {
      if (const auto blocks = as_blocks(stored, first)) {
        first.stored = *blocks;
        return;
      }
    }
    stored.becomes = rules_.asked ? *rules_.asked : is_mxfp4 ? Format::kMxfp4 : native(stored, own);
    stored.is_exact = stored.becomes == Format::kF32 || is_mxfp4 ||
                      (!is_changed &&
                       (stored.becomes == own || (own == Format::kMxfp4 && stored.becomes == Format::kBf16)));
    if (stored.becomes == own && place(stored, first)) return;
    const Format format = stored.becomes;
    if ((format == Format::kQ8_0 || format == Format::kMxfp4) && as_size(first.cols) % 32 != 0)
      throw InputError("{}: rows of experts have {} elements, but {} needs whole blocks of 32",
                       weights_.source, first.cols, name(format));
    first.stored = std::make_shared<const StoredExperts>(std::move(stored));
  }

 private:
  // Makes `first` a view of the experts in the file. Returns false if they can't be used without a copy.
  static bool place(const StoredExperts& stored, Matrix& first) {
    if (const auto elements = as_elements(stored, first))
      first.stored = *elements;
    else if (const auto blocks = as_blocks(stored, first);
             blocks && (blocks->type == GgmlType::kQ8_0 || is_mxfp4(blocks->type)))
      first.stored = *blocks;
    else
      return false;
    return true;
  }

  // Returns the file's own format or F32, whichever the backend runs: neither needs rounding. Changes of an
  // adapter are rounded to BF16 if the experts are BF16, as in PEFT. They are rounded to smaller formats only
  // if --experts says so (docs/decisions/0028).
  Format native(const StoredExperts& stored, const std::optional<Format>& own) const {
    const bool keeps_changes = !stored.updates || own == Format::kBf16 || own == Format::kF32;
    if (own && keeps_changes && rules_.runs(*own)) return *own;
    if (rules_.runs(Format::kF32)) return Format::kF32;
    if (rules_.otherwise) return *rules_.otherwise;
    if (stored.updates)
      throw InputError(
          "{}: an adapter changes the experts, which are {}, so the {} backend runs them only if they are "
          "converted when they are merged: --experts {}; docs/formats.md says what that costs",
          weights_.source, type_name(stored), rules_.backend, targets_text(weights_.config, rules_));
    throw InputError(
        "{}: the experts are {} and not exactly MXFP4, so the {} backend runs them only if they are "
        "converted when the model is loaded: --experts {}; docs/quality.md says what each changes",
        weights_.source, type_name(stored), rules_.backend, targets_text(weights_.config, rules_));
  }

  const Weights& weights_;
  const ExpertRules& rules_;
  ThreadPool& pool_;
};

double squared_error(std::span<const float, kMxfp4BlockSize> values, const Mxfp4Block& block) {
  const std::array<float, kMxfp4BlockSize> decoded = decode(block);
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += std::pow(double{values[i]} - double{decoded[i]}, 2);
  return sum;
}

// Encodes each block with the scale of the specification's rule or with that of Mxfp4Rule::kCeil, which may
// be twice as large and never saturates: the smaller error decides. The specification's rule alone fails for
// a block whose largest value is 4 times its scale, which the released models have: if an adapter makes this
// value slightly smaller, the scale halves, and the value saturates at 3/4 of the original.
void encode_nearest(std::span<const float> values, std::span<uint8_t> codes, std::span<uint8_t> scales) {
  for (size_t i = 0; i < scales.size(); ++i) {
    const auto block = values.subspan(i * kMxfp4BlockSize).first<kMxfp4BlockSize>();
    const Mxfp4Block fine = encode(block, Mxfp4Rule::kOcp), coarse = encode(block, Mxfp4Rule::kCeil);
    const Mxfp4Block& best = squared_error(block, coarse) < squared_error(block, fine) ? coarse : fine;
    std::ranges::copy(best.codes, codes.subspan(i * kMxfp4CodeBytes).begin());
    scales[i] = best.scale.bits;
  }
}

// A matrix of all experts of one layer, converted to another format.
class ConvertedExperts {
 public:
  ConvertedExperts(const StoredExperts& stored, const Matrix& first, int num_experts)
      : first_(first), format_(stored.becomes), is_changed_(stored.updates != nullptr) {
    const Format format = format_;
    const size_t rows = as_size(num_experts) * as_size(first.rows);
    const size_t data = format == Format::kMxfp4 ? rows * cols() / 2 : num_bytes(format, rows * cols());
    scales_at_ = (data + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
    const size_t scales = format == Format::kMxfp4  ? rows * cols() / kMxfp4BlockSize
                          : format == Format::kE4m3 ? rows * sizeof(float)
                                                    : 0;
    storage_ = Buffer(scales_at_ + scales);
  }

  void write(const ExpertRows& rows, std::span<const float> values) const {
    const size_t row = as_size(rows.expert) * as_size(first_.rows) + as_size(rows.first_row);
    const size_t count = values.size() / cols(), at = row * cols();
    auto* bytes = storage_.as<uint8_t>();
    uint8_t* scales = bytes + scales_at_;
    if (format_ == Format::kMxfp4) {
      const std::span codes(bytes + at / 2, values.size() / 2);
      const std::span of_blocks(scales + at / kMxfp4BlockSize, values.size() / kMxfp4BlockSize);
      is_changed_ ? encode_nearest(values, codes, of_blocks) : encode_mxfp4(values, codes, of_blocks);
    } else if (format_ == Format::kQ8_0) {
      quantise_q8_0(values, {storage_.data() + num_bytes(format_, at), num_bytes(format_, values.size())});
    } else if (format_ == Format::kE4m3) {
      for (size_t r = 0; r < count; ++r)
        reinterpret_cast<float*>(scales)[row + r] =
            quantise_e4m3(values.subspan(r * cols(), cols()), {bytes + at + r * cols(), cols()});
    } else if (format_ == Format::kBf16) {
      std::ranges::transform(values, storage_.as<Bf16>() + at, [](float x) { return to_bf16(x); });
    } else {
      std::ranges::copy(values, storage_.as<float>() + at);
    }
  }

  // Decodes rows that were written.
  void read(const ExpertRows& rows, std::span<float> values) const {
    const size_t row = as_size(rows.expert) * as_size(first_.rows) + as_size(rows.first_row),
                 at = row * cols();
    const auto* bytes = storage_.as<uint8_t>();
    const uint8_t* scales = bytes + scales_at_;
    if (format_ == Format::kMxfp4) {
      decode_mxfp4({bytes + at / 2, values.size() / 2},
                   {scales + at / kMxfp4BlockSize, values.size() / kMxfp4BlockSize}, values);
    } else if (format_ == Format::kQ8_0) {
      dequantise(GgmlType::kQ8_0,
                 {storage_.data() + num_bytes(format_, at), num_bytes(format_, values.size())}, values);
    } else if (format_ == Format::kE4m3) {
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = to_float(E4m3{bytes[at + i]}) * reinterpret_cast<const float*>(scales)[row + i / cols()];
    } else if (format_ == Format::kBf16) {
      const Bf16* from = storage_.as<Bf16>() + at;
      std::transform(from, from + values.size(), values.begin(), [](Bf16 x) { return to_float(x); });
    } else {
      std::copy_n(storage_.as<float>() + at, values.size(), values.begin());
    }
  }

  Matrix matrix() const {
    Matrix made{first_.rows, first_.cols, {}};
    const uint8_t* scales = storage_.as<uint8_t>() + scales_at_;
    if (format_ == Format::kQ8_0)
      made.stored = Blocks{GgmlType::kQ8_0, storage_.data(), nullptr};
    else
      made.stored = Elements{format_, storage_.data(), format_ == Format::kMxfp4 ? scales : nullptr,
                             format_ == Format::kE4m3 ? reinterpret_cast<const float*>(scales) : nullptr};
    return made;
  }
  Buffer take_storage() { return std::move(storage_); }

 private:
  size_t cols() const { return as_size(first_.cols); }

  Matrix first_;
  Format format_;
  bool is_changed_;  // by adapters
  size_t scales_at_;
  Buffer storage_;
};

size_t stored_bytes(const ExpertTensor& tensor, size_t rows, size_t cols, int num_experts) {
  return as_size(num_experts) * expert_bytes(tensor, rows, cols);
}

void release(const ExpertTensor& tensor, size_t rows, size_t cols, int num_experts) {
  for (size_t e = 0; e < as_size(num_experts); ++e) release_pages(codes_of(tensor, e, rows, cols));
}

// Costs of a conversion: bytes before and after, and sums from which the relative error of the weights
// follows.
struct Price {
  size_t before{0}, after{0};
  double squares{0}, squared_errors{0};

  void add(std::span<const float> values, std::span<const float> rounded) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = double{rounded[i]} - double{values[i]};
      squares += double{values[i]} * double{values[i]};
      squared_errors += error * error;
    }
  }
  std::string text() const {
    if (squared_errors == 0) return fmt::format("{} bytes to {}", before, after);
    return fmt::format("{} bytes to {}; the weights change by {:.2g} % (root mean square)", before, after,
                       100 * std::sqrt(squared_errors / squares));
  }
};

// Writes the experts of one matrix in the format that was chosen for them. Throws InputError if adapters
// changed values to numbers that are not finite.
ConvertedExperts convert_matrix(const StoredExperts& stored, const Matrix& first, int num_experts,
                                ThreadPool& pool, Price& price) {
  ConvertedExperts converted(stored, first, num_experts);
  std::mutex mutex;
  const auto convert = [&](const ExpertRows& rows, std::span<const float> values) {
    if (stored.updates && !fit_in_bf16(values)) return false;
    converted.write(rows, values);
    if (stored.is_exact) return true;
    std::vector<float> rounded(values.size());
    converted.read(rows, rounded);
    Price of_rows;
    of_rows.add(values, rounded);
    const std::lock_guard lock(mutex);
    price.squares += of_rows.squares;
    price.squared_errors += of_rows.squared_errors;
    return true;
  };
  if (!for_each_rows(stored, first, num_experts, pool, convert))
    throw InputError("merged with the adapter, experts have values that are not finite numbers");
  return converted;
}

// Whether a backend runs the two formats of this layer together: Q8_0 only with itself or MXFP4.
bool run_together(const LayerWeights& layer) {
  const Format up = layer.gate_up.first.format(), down = layer.down.first.format();
  const auto is_one = [&](Format format) { return up == format || down == format; };
  return up == down || !is_one(Format::kQ8_0) || is_one(Format::kMxfp4);
}

}  // namespace

bool is_exactly_mxfp4(const StoredExperts& stored, const Matrix& first, int num_experts, ThreadPool& pool) {
  if (as_size(first.cols) % kMxfp4BlockSize != 0) return false;
  return for_each_rows(stored, first, num_experts, pool,
                       [](const ExpertRows&, std::span<const float> values) {
                         for (size_t i = 0; i < values.size(); i += kMxfp4BlockSize)
                           if (!is_exact(values.subspan(i).first<kMxfp4BlockSize>())) return false;
                         return true;
                       });
}

void to_mxfp4(const StoredExperts& stored, const Matrix& first, int num_experts, const Mxfp4Output& to,
              ThreadPool& pool) {
  const size_t row_blocks = as_size(first.cols) / kMxfp4BlockSize;
  for_each_rows(stored, first, num_experts, pool, [&](const ExpertRows& rows, std::span<const float> values) {
    const size_t block = (as_size(rows.expert) * as_size(first.rows) + as_size(rows.first_row)) * row_blocks;
    std::vector<uint8_t> codes(values.size() / 2), scales(values.size() / kMxfp4BlockSize);
    encode_mxfp4(values, codes, scales);
    if (to.codes) std::ranges::copy(codes, to.codes + block * kMxfp4CodeBytes);
    if (to.scales) std::ranges::copy(scales, to.scales + block);
    return true;
  });
}

size_t expert_bytes(const Config& config, Format format) {
  const size_t up_rows = 2 * as_size(config.intermediate), hidden = as_size(config.hidden);
  const size_t one =
      matrix_bytes(format, up_rows, hidden) + matrix_bytes(format, hidden, as_size(config.intermediate));
  return as_size(config.num_layers) * as_size(config.experts().count) * one;
}

void check_asked(const ExpertRules& rules, const Config& config) {
  if (rules.asked && !rules.runs(*rules.asked))
    throw InputError("--experts: the {} backend does not run experts in {}; it runs {}", rules.backend,
                     name(*rules.asked), targets_text(config, rules));
}

void decide_experts(Weights& weights, const ExpertRules& rules, ThreadPool& pool,
                    const ReportProgress& report) {
  check_asked(rules, weights.config);
  ExpertRules both_otherwise = rules;
  both_otherwise.asked = rules.otherwise;
  const Decider decider(weights, rules, pool), decider_otherwise(weights, both_otherwise, pool);
  bool has_read = false;  // whether a whole matrix was read to check it; progress is shown only then
  size_t done = 0;
  for (LayerWeights& layer : weights.layers) {
    decider.decide(layer.gate_up.first);
    decider.decide(layer.down.first);
    for (const Matrix* first : {&layer.gate_up.first, &layer.down.first})
      has_read |= first->experts() && first->experts()->is_exact && first->format() == Format::kMxfp4;
    ++done;
    if (report && has_read) report(done, weights.layers.size());
    if (rules.takes_any_blocks || run_together(layer)) continue;
    if (!rules.otherwise)
      throw InputError(
          "{}: the experts of a layer are {} and {}, which the {} backend does not run together: convert "
          "them with --experts {}",
          weights.source, stored_name(layer.gate_up.first), stored_name(layer.down.first), rules.backend,
          targets_text(weights.config, rules));
    decider_otherwise.decide(layer.gate_up.first);
    decider_otherwise.decide(layer.down.first);
  }
}

std::shared_ptr<const Weights> convert_experts(std::shared_ptr<const Weights> weights, ThreadPool& pool,
                                               const ReportProgress& report) {
  struct Storage {
    std::shared_ptr<const void> original;
    std::vector<Buffer> converted;
  };
  Weights made = *weights;
  const int num_experts = made.config.experts().count;
  std::map<std::pair<std::string, Format>, Price> groups;
  size_t done = 0;
  for (LayerWeights& layer : made.layers) {
    const auto storage = std::make_shared<Storage>(Storage{layer.experts_storage, {}});
    for (Matrix* first : {&layer.gate_up.first, &layer.down.first}) {
      const auto* held = std::get_if<std::shared_ptr<const StoredExperts>>(&first->stored);
      if (!held) continue;
      const std::shared_ptr<const StoredExperts> stored = *held;
      Price& price = groups[{type_name(*stored), stored->becomes}];
      ConvertedExperts converted = convert_matrix(*stored, *first, num_experts, pool, price);
      *first = converted.matrix();
      const size_t rows = as_size(first->rows) / (stored->odd_rows ? 2 : 1), cols = as_size(first->cols);
      for (const ExpertTensor* tensor : {&stored->rows, stored->odd_rows ? &*stored->odd_rows : nullptr}) {
        if (!tensor) continue;
        price.before += stored_bytes(*tensor, rows, cols, num_experts);
        if (made.is_mapped()) release(*tensor, rows, cols, num_experts);
      }
      storage->converted.push_back(converted.take_storage());
      price.after += storage->converted.back().bytes();
    }
    if (storage->converted.empty()) continue;
    layer.experts_storage = storage;
    if (report) report(done += 1, made.layers.size());
  }
  if (groups.empty()) return weights;
  for (const auto& [types, price] : groups)
    log::info("experts: {} to {}, {}", types.first, name(types.second), price.text());
  return std::make_shared<const Weights>(std::move(made));
}

std::string describe_experts(const Weights& weights) {
  std::vector<std::string> parts;
  for (const LayerWeights& layer : weights.layers)
    for (const Matrix* first : {&layer.gate_up.first, &layer.down.first}) {
      std::string part = stored_name(*first) + " in the file";
      if (const StoredExperts* stored = first->experts()) {
        const std::string_view becomes = name(stored->becomes);
        if (stored->updates) part += ", changed by an adapter";
        if (!stored->is_exact)
          part += fmt::format(", rounded to {}", becomes);
        else if (becomes != stored_name(*first))
          part += fmt::format(", exactly {}", becomes);
      }
      if (std::ranges::find(parts, part) == parts.end()) parts.push_back(std::move(part));
    }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace nibble
