#include "backend/cuda/verify/choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "backend/cuda/layout/activations.h"

namespace nibble::cuda::verify {
namespace {

template <typename T>
void put(const DeviceArray<T>& array, const std::vector<T>& from) {
  copy_to_device(array.data(), from.data(), from.size() * sizeof(T), "copying groups");
}

}  // namespace

ExpectedRouting choose(const float* logits, int num_experts, int experts_per_token) {
  std::vector<int> order = numbers_below(num_experts);
  const auto key = [&](int e) { return logits[e] > -INFINITY ? logits[e] : -INFINITY; };  // NaN ranks lowest
  std::ranges::stable_sort(order, std::greater(), key);
  ExpectedRouting choice;
  choice.experts.assign(order.begin(), order.begin() + experts_per_token);
  const double largest = logits[order[0]];
  double sum = 0;
  for (const int e : choice.experts) {
    choice.weights.push_back(std::exp(double{logits[e]} - largest));
    sum += choice.weights.back();
  }
  // The bound of a weight's error covers 2 ulp of the exponential, the rounding of its argument (2^-24 of
  // `difference`), and one rounding for each addition and for the division.
  for (size_t k = 0; k < choice.experts.size(); ++k) {
    choice.weights[k] /= sum;
    const double difference = largest - double{logits[choice.experts[k]]};
    choice.bounds.push_back((difference + 8 + experts_per_token) * 0x1p-23 * choice.weights[k] + 0x1p-120);
  }
  return choice;
}

void ExpectedRouting::check_weight(Comparison& comparison, int token, ptrdiff_t slot, float actual,
                                   const IndexRange& own) const {
  if (own.has(experts[slot]))
    comparison.near({"weight", token, slot}, actual, weights[slot], bounds[slot]);
  else
    comparison.equal("weight of another rank's expert", token, slot, actual, 0);
}

DeviceGroups::DeviceGroups(int num_tokens, int experts_per_token, int max_groups, int size)
    : experts_per_token_(experts_per_token),
      size_(size),
      count_(1),
      expert_(max_groups),
      num_pairs_(max_groups),
      pairs_(max_groups * size_),
      image_row_(max_groups),
      chosen_(num_tokens * experts_per_token),
      weight_(num_tokens * experts_per_token) {}

DeviceGroups::DeviceGroups(const std::vector<ExpectedRouting>& choices, int num_experts, int max_groups,
                           int size)
    : DeviceGroups(static_cast<int>(choices.size()), static_cast<int>(choices.front().experts.size()),
                   max_groups, size) {
  std::vector<int> expert, num_pairs, pairs;
  std::vector<float> weight;
  for (const ExpectedRouting& choice : choices) {
    for (const double w : choice.weights) weight.push_back(static_cast<float>(w));
  }
  put(weight_, weight);
  for (int e = 0; e < num_experts; ++e) {
    bool is_open = false;  // whether this expert's last group has room
    for (size_t t = 0; t < choices.size(); ++t)
      for (int k = 0; k < experts_per_token_; ++k) {
        if (choices[t].experts[k] != e) continue;
        if (!is_open) {
          expert.push_back(e);
          num_pairs.push_back(0);
          pairs.resize(pairs.size() + size_, -1);
        }
        pairs[pairs.size() - (size_ - num_pairs.back()++)] = static_cast<int>(t) * experts_per_token_ + k;
        is_open = num_pairs.back() < size_;
      }
  }
  put(count_, {static_cast<int>(expert.size())});
  put(expert_, expert);
  put(num_pairs_, num_pairs);
  put(pairs_, pairs);
  std::vector<int> image_row;
  image_row_of_pair_.resize(weight.size());
  int row = 0;
  for (size_t group = 0; group < expert.size(); ++group) {
    image_row.push_back(row);
    for (int i = 0; i < num_pairs[group]; ++i) image_row_of_pair_[pairs[group * size_ + i]] = row + i;
    row += whole_eights(num_pairs[group]);
  }
  put(image_row_, image_row);
}

int DeviceGroups::image_pairs() const {
  return whole_eights(static_cast<int>(weight_.count())) + 8 * max_groups();
}

Groups DeviceGroups::view() const {
  return {size_,         count_.data(),  expert_.data(),   num_pairs_.data(),
          pairs_.data(), weight_.data(), image_row_.data()};
}

GroupsRead DeviceGroups::read(Comparison& comparison) const {
  return {count_.read(comparison, "group count")[0],     expert_.read(comparison, "group experts"),
          num_pairs_.read(comparison, "group sizes"),    pairs_.read(comparison, "group pairs"),
          image_row_.read(comparison, "rows of groups"), weight_.read(comparison, "weights")};
}

DeviceRoutingMailbox::DeviceRoutingMailbox(const Strips& router, int num_tokens, int experts_per_token)
    : num_tokens_(num_tokens),
      sums_(std::vector<uint64_t>(num_segment_sums(router, num_tokens), 0)),
      experts_(std::vector<uint64_t>(num_tokens * experts_per_token, 0)),
      weights_(num_tokens * experts_per_token),
      step_(std::vector<uint32_t>{kStep}) {}

DeviceRoutingMailbox::DeviceRoutingMailbox(const std::vector<ExpectedRouting>& choices)
    : num_tokens_(static_cast<int>(choices.size())),
      sums_(0),
      experts_(choices.size() * choices.front().experts.size()),
      weights_(experts_.count()),
      step_(std::vector<uint32_t>{kStep}) {
  std::vector<uint64_t> words;
  std::vector<float> weights;
  for (const ExpectedRouting& choice : choices) {
    for (const int e : choice.experts) words.push_back(uint64_t{kTag} << 32 | static_cast<uint32_t>(e));
    weights.insert(weights.end(), choice.weights.begin(), choice.weights.end());
  }
  put(experts_, words);
  put(weights_, weights);
}

RoutingMailbox DeviceRoutingMailbox::view() const {
  return {sums_.data(), experts_.data(), weights_.data(), step_.data(), kNumLayers, kLayer};
}

std::vector<float> DeviceRoutingMailbox::read_logits(Comparison& comparison, const Strips& router,
                                                     const std::vector<float>& bias) const {
  const auto words = sums_.read(comparison, "router sums");
  for (size_t i = 0; i < words.size(); ++i)
    comparison.equal("tag of a router sum", 0, i, static_cast<double>(words[i] >> 32), kTag);
  std::vector<float> logits;
  for (int i = 0; i < num_tokens_ * router.rows; ++i) {
    const int token = i / router.rows, e = i % router.rows;
    float sum = 0;
    for (int segment = 0; segment < router.num_segments; ++segment) {
      const int unit = (token * router.num_strips + e / kStripRows) * router.num_segments + segment;
      const float more =
          std::bit_cast<float>(static_cast<uint32_t>(words[unit * kStripRows + e % kStripRows]));
      sum = segment ? sum + more : more;
    }
    logits.push_back(sum + bias[e]);
  }
  return logits;
}

void DeviceRoutingMailbox::check_choices(Comparison& comparison, const std::vector<ExpectedRouting>& expected,
                                         const IndexRange& own) const {
  const auto experts = experts_.read(comparison, "experts");
  const auto weights = weights_.read(comparison, "weights");
  size_t pair = 0;
  for (size_t t = 0; t < expected.size(); ++t)
    for (size_t k = 0; k < expected[t].experts.size(); ++k, ++pair) {
      comparison.equal("tag of an expert", t, k, static_cast<double>(experts[pair] >> 32), kTag);
      comparison.equal("expert", t, k, static_cast<double>(experts[pair] & 0xFFFFFFFFu),
                       expected[t].experts[k]);
      expected[t].check_weight(comparison, static_cast<int>(t), k, weights[pair], own);
    }
}

}  // namespace nibble::cuda::verify
