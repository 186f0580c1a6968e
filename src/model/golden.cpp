#include "model/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/check.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "formats/container.h"

namespace nibble {
namespace {

constexpr uint64_t kAny{std::numeric_limits<uint64_t>::max()};

// Three standard deviations of the difference of two logits, each with an independent error of 1.
const double kGapOfErrors{3 * std::sqrt(2)};

// The tensors of a golden file; checks dtype and shape, and copies.
class Tensors {
 public:
  explicit Tensors(const std::filesystem::path& file)
      : file_(file.string()), container_(open_container(file)) {}

  bool has(const std::string& name) const { return container_.find(name) != nullptr; }
  // kAny as an extent accepts every one.
  std::vector<float> floats(const std::string& name, const Shape& shape) const {
    return elements<float>(name, DType::kF32, shape);
  }
  std::vector<TokenId> ids(const std::string& name, const Shape& shape, uint64_t vocab) const {
    std::vector<TokenId> ids = elements<TokenId>(name, DType::kI32, shape);
    for (const TokenId id : ids)
      if (id < 0 || static_cast<uint64_t>(id) >= vocab)
        throw InputError("{}: tensor '{}' has token {}, the vocabulary has {}", file_, name, id, vocab);
    if (ids.empty()) throw InputError("{}: tensor '{}' is empty", file_, name);
    return ids;
  }
  uint64_t extent(const std::string& name, size_t axis) const {
    const Tensor& tensor = at(name);
    if (axis >= tensor.shape.size())
      throw InputError("{}: tensor '{}' is {}: golden data have more dimensions there", file_, name,
                       tensor.shape);
    return tensor.shape[axis];
  }

 private:
  const Tensor& at(const std::string& name) const {
    const Tensor* tensor = container_.find(name);
    if (!tensor) throw InputError("{}: there is no tensor '{}', which golden data must have", file_, name);
    return *tensor;
  }
  template <typename T>
  std::vector<T> elements(const std::string& name, DType dtype, const Shape& shape) const {
    const Tensor& tensor = at(name);
    const auto accepts = [](uint64_t expected, uint64_t extent) {
      return expected == kAny || expected == extent;
    };
    if (tensor.dtype != dtype ||
        !std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end(), accepts))
      throw InputError(
          "{}: tensor '{}' is {} {}, golden data have {} of {} dimensions there that fit the other tensors",
          file_, name, tensor.dtype, tensor.shape, dtype, shape.size());
    std::vector<T> copy(tensor.data.size() / sizeof(T));
    std::memcpy(copy.data(), tensor.data.data(), tensor.data.size());
    return copy;
  }

  std::string file_;
  Container container_;
};

GoldenPrompt read_prompt(const Tensors& tensors, const std::string& name, uint64_t vocab) {
  GoldenPrompt prompt;
  prompt.name = name;
  prompt.ids = tensors.ids(name + ".ids", {kAny}, vocab);
  const uint64_t num_tokens = prompt.ids.size();
  prompt.logits = tensors.floats(name + ".last_logits", {vocab});
  prompt.num_logit_rows = 1;
  prompt.top_ids = tensors.ids(name + ".top5_ids", {num_tokens, kGoldenTop}, vocab);
  prompt.top_logprobs = tensors.floats(name + ".top5_logprobs", {num_tokens, kGoldenTop});
  prompt.greedy = tensors.ids(name + ".greedy", {kAny}, vocab);
  prompt.greedy_gap = tensors.floats(name + ".greedy_gap", {prompt.greedy.size()});
  prompt.router_margin = tensors.floats(name + ".router_margin", {num_tokens});
  if (tensors.has(name + ".hidden")) {
    prompt.hidden = tensors.floats(name + ".hidden", {kAny, num_tokens, kAny});
    prompt.num_hidden_rows = static_cast<int>(num_tokens);
  } else if (tensors.has(name + ".hidden_last")) {
    prompt.hidden = tensors.floats(name + ".hidden_last", {kAny, kAny});
    prompt.num_hidden_rows = 1;
  }
  return prompt;
}

GoldenSet read_index(const std::filesystem::path& file) {
  GoldenSet set;
  const auto tensor_file = std::filesystem::path(file).replace_extension(".safetensors");
  const Tensors tensors(tensor_file);
  try {
    const auto index = nlohmann::json::parse(read_text_file(file));
    set.vocab = index.at("vocab").get<int>();
    if (set.vocab <= kGoldenTop)
      throw InputError("{}: a vocabulary of {} has no {} likeliest tokens", file.string(), set.vocab,
                       kGoldenTop);
    for (const auto& entry : index.at("prompts")) {
      set.prompts.push_back(
          read_prompt(tensors, entry.at("name").get<std::string>(), static_cast<uint64_t>(set.vocab)));
      set.prompts.back().computed_by = entry.value("computed_by", "");
    }
  } catch (const nlohmann::json::exception& error) {
    throw InputError(
        "{}: not an index of golden data (an object with 'vocab' and a list 'prompts' with a 'name' each): "
        "{}",
        file.string(), error.what());
  }
  return set;
}

GoldenSet read_logits_file(const std::filesystem::path& file) {
  GoldenSet set;
  const Tensors tensors(file);
  const uint64_t vocab = tensors.extent("logits0", 1);
  set.vocab = static_cast<int>(vocab);
  for (int i = 0; tensors.has("ids" + std::to_string(i)); ++i) {
    GoldenPrompt prompt;
    prompt.name = file.parent_path().filename().string() + std::to_string(i);
    prompt.ids = tensors.ids("ids" + std::to_string(i), {kAny}, vocab);
    prompt.logits = tensors.floats("logits" + std::to_string(i), {prompt.ids.size(), vocab});
    prompt.num_logit_rows = static_cast<int>(prompt.ids.size());
    set.prompts.push_back(std::move(prompt));
  }
  return set;
}

// Keeps the larger; a NaN counts as the largest (std::max would drop it).
void keep_worst(double& worst, double value) {
  if (!(value <= worst)) worst = value;
}

struct RowError {
  double relative_l2;       // |ours - expected| / |expected|
  double root_mean_square;  // the error of one logit
};

RowError compare_row(std::span<const float> expected, std::span<const float> ours, GoldenDifference& result) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double distance = ours[i] - double{expected[i]};
    error += distance * distance;
    norm += double{expected[i]} * expected[i];
    keep_worst(result.max_logit, std::abs(distance));
  }
  return {std::sqrt(error / norm), std::sqrt(error / static_cast<double>(expected.size()))};
}

// Compares the positions whose logits the golden data have.
std::vector<RowError> compare_logits(const GoldenPrompt& golden, std::span<const float> logits, size_t vocab,
                                     double router_margin, GoldenDifference& result) {
  const std::span<const float> expected(golden.logits), ours = logits.last(golden.logits.size());
  std::vector<RowError> errors;
  for (size_t row = 0; row < expected.size(); row += vocab) {
    errors.push_back(compare_row(expected.subspan(row, vocab), ours.subspan(row, vocab), result));
    const size_t position = golden.ids.size() - (expected.size() - row) / vocab;
    const bool is_tied = !golden.router_margin.empty() && golden.router_margin[position] <= router_margin;
    keep_worst(is_tied ? result.tied_l2 : result.relative_l2, errors.back().relative_l2);
  }
  return errors;
}

// Compares those places of one position's top 5 whose neighbours are too far away to have changed places with them.
// The sixth token is not stored: our best token outside the golden five stands in for it.
void compare_top(std::span<const TokenId> golden_ids, std::span<const float> golden_logprobs,
                 std::span<const float> logits, double top_gap, GoldenDifference& result) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_likelier = [&](TokenId a, TokenId b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + kGoldenTop + 1, order.end(), is_likelier);
  const auto outside = std::find_if(order.begin(), order.end(), [&](TokenId id) {
    return std::find(golden_ids.begin(), golden_ids.end(), id) == golden_ids.end();
  });

  for (int place = 0; place < kGoldenTop; ++place) {
    const bool is_last = place + 1 == kGoldenTop;
    const double above = place == 0 ? std::numeric_limits<double>::infinity()
                                    : golden_logprobs[place - 1] - golden_logprobs[place];
    const double below = is_last ? std::abs(logits[golden_ids[place]] - logits[*outside])
                                 : golden_logprobs[place] - golden_logprobs[place + 1];
    if (above <= top_gap || below <= top_gap) continue;
    ++result.num_top_compared;
    result.num_top_wrong += order[place] != golden_ids[place];
  }
}

}  // namespace

GoldenSet read_golden(const std::filesystem::path& file) {
  return file.extension() == ".json" ? read_index(file) : read_logits_file(file);
}

// The relative error of keys and values is at most u = 2^-8. In one layer's attention with scores s_j of size up to
// S, values have the relative error u and scores the error u S, so weights have the relative error 2 u S and the
// output one of at most (1 + 2 S) u; on average about a third of that, since rounding errors are uniform. Errors of
// layers add up like independent ones, hence sqrt(L). With S = 2 the relative error of a row of logits is 5 u sqrt(L)
// / 3 (1.6e-2 for 6 layers; the worst measured is 1.05e-2).
//
// The error of a single logit is that share of the logits' root mean square, and the error of the difference of two
// logits, at three standard deviations, 3 sqrt(2) times as much.
//
// Errors of this size can change a router's choice where its margin is below 1e-2, and another expert moves
// log-probabilities by up to 0.4 (both measured with bfloat16 arithmetic on the miniature model:
// tests/golden/README.md). This is independent of later rounding. Golden data do not record router margins within a
// continuation.
constexpr double kCacheError{1 + 2 * 2.0};  // bound of the error of a layer's attention, in units of u
constexpr double kOtherExpert{0.4};         // how far another expert moves a log-probability, at most

// `other_expert`: how far another expert moves the difference of two log-probabilities.
GoldenTolerance rounding_tolerance(const Config& config, const GoldenSet& golden, double layer_error,
                                   double other_expert) {
  constexpr double kRounding{0x1p-8};
  double squares = 0, count = 0;
  for (const GoldenPrompt& prompt : golden.prompts) {
    for (const float logit : prompt.logits) squares += double{logit} * double{logit};
    count += static_cast<double>(prompt.logits.size());
  }
  GoldenTolerance tolerance;
  tolerance.relative_l2 = layer_error * kRounding * std::sqrt(config.num_layers) / 3;
  tolerance.router_margin = 1e-2;
  const double size = std::sqrt(squares / std::max(count, 1.0));
  tolerance.top_gap = kGapOfErrors * tolerance.relative_l2 * size;
  tolerance.top_gap_after_tie = tolerance.greedy_gap = std::hypot(tolerance.top_gap, other_expert);
  tolerance.tied_l2 = std::hypot(tolerance.relative_l2, kOtherExpert / size);
  return tolerance;
}

GoldenTolerance bf16_cache_tolerance(const Config& config, const GoldenSet& golden) {
  GoldenTolerance tolerance = rounding_tolerance(config, golden, kCacheError, kOtherExpert);
  tolerance.tied_l2 = tolerance.relative_l2;  // rounding is so small that near ties rarely change
  return tolerance;
}

// Besides keys and values a layer rounds the two normed inputs, queries, attention weights and output, and the
// experts' inner activations: six errors of one u, independent of each other and of the cache's. The router then
// changes its choice at many near ties, and both of two log-probabilities may have moved by kOtherExpert.
GoldenTolerance bf16_tolerance(const Config& config, const GoldenSet& golden) {
  return rounding_tolerance(config, golden, std::sqrt(kCacheError * kCacheError + 6),
                            std::sqrt(2) * kOtherExpert);
}

// The error of an element in int8 is at most 1/254 of the largest in its block of 32, which is about u of it, and the
// largest is at most sqrt(32) times the block's root mean square. So the relative error of a vector is at most
// sqrt(32) u, with the same third on average. (Of 32 normally distributed numbers the largest is 2.1 to 2.5 times the
// root mean square, so this allows about twice the expected error.)
//
// A layer's experts round two such vectors, their input and the activations between their halves; the attention
// output rounds one. The error of the input of q, k and v passes into values unchanged. An error of queries or keys
// has a random direction in D dimensions, of which a score sees one: it changes scores by S / sqrt(D) of it and
// weights by twice as much. The input of the unembedding is rounded once, not in each layer.
//
// The router margin was measured for BF16's 2^-9 and grows with the error. At a near tie one of K experts may differ,
// in one of the 2 L terms that the residual stream sums: sqrt(2) / K / sqrt(2 L) of it if all terms were alike, and
// three times that is allowed. This is an estimate, not a bound: it applies to rows that are near ties themselves,
// and golden data do not record by how much.
//
// The same bound holds against a reference that rounds in the same places (reference/rounding.h). There an element
// differs only if the other side gives it another code: if its two inputs are d apart, this has the probability d /
// step and makes an error of a step, whose square is 12 times the mean square of a rounding error. So the two sides
// are closer than one rounding makes them as long as fewer than one element in 12 gets another code.
GoldenTolerance int8_tolerance(const Config& config, const GoldenSet& golden, const Int8Products& products) {
  constexpr double kScore{2};
  // upper bound of the square of a block's largest element, if the mean square is 1
  constexpr double kLargest{32};
  double num_roundings = 0;  // rounded vectors in a layer
  if (products.experts) num_roundings += 2;
  if (products.attention_output) num_roundings += 1;
  if (products.qkv) num_roundings += 1 + 2 * 4 * kScore * kScore / config.head_dim;
  if (products.unembedding) num_roundings += 1.0 / config.num_layers;
  if (num_roundings == 0) return bf16_cache_tolerance(config, golden);
  const double layer_error = std::sqrt(kCacheError * kCacheError + num_roundings * kLargest);
  GoldenTolerance tolerance = rounding_tolerance(config, golden, layer_error, std::sqrt(2) * kOtherExpert);
  tolerance.router_margin *= std::sqrt(kLargest);
  tolerance.tied_l2 = 3 / (config.experts_per_token * std::sqrt(config.num_layers));
  return tolerance;
}

GoldenDifference compare(const GoldenPrompt& golden, const GoldenAnswer& answer,
                         const GoldenTolerance& tolerance) {
  GoldenDifference result;
  if (!answer.logits.empty()) {
    const size_t vocab = golden.logits.size() / golden.num_logit_rows;
    NIBBLE_CHECK(answer.logits.size() == golden.ids.size() * vocab, "{} logits of {} tokens, vocabulary {}",
                 answer.logits.size(), golden.ids.size(), vocab);
    const std::vector<RowError> errors =
        compare_logits(golden, answer.logits, vocab, tolerance.router_margin, result);
    const bool is_each_known = errors.size() == golden.ids.size();
    double top_gap = tolerance.top_gap;
    for (size_t t = 0; t < golden.top_ids.size() / kGoldenTop; ++t) {
      if (is_each_known) {
        top_gap = kGapOfErrors * errors[t].root_mean_square;
      } else if (golden.router_margin[t] <= tolerance.router_margin) {
        top_gap = tolerance.top_gap_after_tie;
        continue;
      }
      compare_top(std::span(golden.top_ids).subspan(t * kGoldenTop, kGoldenTop),
                  std::span(golden.top_logprobs).subspan(t * kGoldenTop, kGoldenTop),
                  answer.logits.subspan(t * vocab, vocab), top_gap, result);
    }
  }
  if (!answer.greedy.empty()) {
    NIBBLE_CHECK(answer.greedy.size() == golden.greedy.size(), "{} tokens, {} golden", answer.greedy.size(),
                 golden.greedy.size());
    const auto at = std::mismatch(answer.greedy.begin(), answer.greedy.end(), golden.greedy.begin()).first;
    if (at != answer.greedy.end()) {
      result.greedy_at = static_cast<int>(at - answer.greedy.begin());
      result.greedy_gap = golden.greedy_gap[*result.greedy_at];
    }
  }
  if (!answer.hidden.empty()) {
    NIBBLE_CHECK(answer.hidden.size() == golden.hidden.size(), "{} elements, {} golden", answer.hidden.size(),
                 golden.hidden.size());
    for (size_t i = 0; i < golden.hidden.size(); ++i)
      keep_worst(result.max_hidden, std::abs(double{answer.hidden[i]} - double{golden.hidden[i]}));
  }
  return result;
}

bool is_within(const GoldenDifference& difference, const GoldenTolerance& tolerance) {
  return difference.relative_l2 <= tolerance.relative_l2 && difference.tied_l2 <= tolerance.tied_l2 &&
         difference.max_hidden <= tolerance.hidden && difference.num_top_wrong == 0 &&
         (!difference.greedy_at || difference.greedy_gap <= tolerance.greedy_gap);
}

}  // namespace nibble
