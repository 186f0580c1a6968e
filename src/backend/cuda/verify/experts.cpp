// The experts' products: up and down.
#include <algorithm>
#include <cmath>

#include "backend/cuda/kernels.h"
#include "backend/cuda/verify/checks.h"
#include "backend/cuda/verify/choice.h"
#include "backend/cuda/verify/matrix.h"
#include "backend/cuda/verify/shapes.h"

namespace nibble::cuda::verify {
namespace {

constexpr float kLimit{7};

// Choices of all tokens, and the form in which kernels get them: of a single token its logits, of several the groups.
class TestRouting {
 public:
  explicit TestRouting(const Case& c)
      : logits_(random_floats(c.values == Values::kTypical ? Values::kTypical : Values::kEqual, c.seed + 50,
                              static_cast<size_t>(c.num_tokens * c.shape.num_experts))),
        choices_(choices_of(c, logits_)),
        max_groups_(max_groups_of(c.num_tokens, c.shape.num_experts, c.shape.experts_per_token)),
        num_experts_(c.shape.num_experts),
        device_logits_(c.num_tokens == 1 ? logits_ : std::vector<float>()),
        groups_(c.num_tokens == 1 ? DeviceGroups(1, c.shape.experts_per_token, max_groups_)
                                  : DeviceGroups(choices_, num_experts_, max_groups_)) {}

  int max_groups() const { return max_groups_; }
  Groups view() const {
    return groups_.view(choices_.size() == 1 ? device_logits_.data() : nullptr, num_experts_);
  }
  // A pair is token K + slot.
  double weight(int pair) const { return choice(pair).weights[slot(pair)]; }
  double weight_bound(int pair) const { return choice(pair).bounds[slot(pair)]; }

  // body(expert, its pairs)
  template <typename Body>
  void for_each_expert(const Body& body) const {
    std::vector<std::vector<int>> pairs(static_cast<size_t>(num_experts_));
    int pair = 0;
    for (const TestChoice& choice : choices_)
      for (const int e : choice.experts) pairs[static_cast<size_t>(e)].push_back(pair++);
    for (int e = 0; e < num_experts_; ++e)
      if (!pairs[static_cast<size_t>(e)].empty()) body(e, pairs[static_cast<size_t>(e)]);
  }

 private:
  static std::vector<TestChoice> choices_of(const Case& c, const std::vector<float>& logits) {
    std::vector<TestChoice> choices;
    for (int t = 0; t < c.num_tokens; ++t)
      choices.push_back(
          choose(logits.data() + t * c.shape.num_experts, c.shape.num_experts, c.shape.experts_per_token));
    return choices;
  }
  size_t per_token() const { return choices_.front().experts.size(); }
  const TestChoice& choice(int pair) const { return choices_[static_cast<size_t>(pair) / per_token()]; }
  size_t slot(int pair) const { return static_cast<size_t>(pair) % per_token(); }

  std::vector<float> logits_;
  std::vector<TestChoice> choices_;
  int max_groups_, num_experts_;
  DeviceArray<float> device_logits_;
  DeviceGroups groups_;
};

double swish(double gate) { return gate / (1 + std::exp(-1.702 * gate)); }

struct Near {
  double value, bound;
};

// swish(min(gate, limit)) (clamp(up, -limit, limit) + 1), of a gate and an up that are known within their bounds. swish falls to its
// least at -1.2784 / 1.702 and rises from there. Its own roundings: 2 ulp of the exponential and, for its rounded argument, twice
// 1.702 |gate| 2^-24, and 6 of the other operations. Where the exponential overflows 2^-117 is lost.
Near swiglu(const Near& gate, const Near& up) {
  const auto gate_at = [](double g) { return swish(std::min(g, double{kLimit})); };
  const auto up_at = [](double l) { return std::clamp(l, -double{kLimit}, double{kLimit}) + 1; };
  const double g = gate_at(gate.value), l = up_at(up.value);
  double gate_bound = std::max(std::abs(gate_at(gate.value - gate.bound) - g),
                               std::abs(gate_at(gate.value + gate.bound) - g));
  constexpr double kLeast{-1.2784 / 1.702};
  if (std::abs(gate.value - kLeast) < gate.bound) gate_bound = std::max(gate_bound, g - swish(kLeast));
  const double up_bound =
      std::max(std::abs(up_at(up.value - up.bound) - l), std::abs(up_at(up.value + up.bound) - l));
  const double exponent = 1.702 * std::min(std::abs(gate.value), 90.0);
  return {g * l, gate_bound * (std::abs(l) + up_bound) + std::abs(g) * up_bound +
                     (2 * exponent + 10) * 0x1p-23 * std::abs(g) * (std::abs(l) + 1) + 0x1p-117};
}

// A sum and its bias.
Near with_bias(const Products& products, size_t at, float bias) {
  return {products.sums[at] + double{bias},
          products.bounds[at] + 0x1p-23 * (std::abs(products.sums[at]) + std::abs(double{bias}))};
}

void check_up_case(Comparison& comparison, Stream stream, Format weights, const Case& c) {
  const int T = c.num_tokens, H = c.shape.hidden, I = c.shape.intermediate, E = c.shape.num_experts,
            K = c.shape.experts_per_token;
  const auto normed = random_bf16(c.values, c.seed + 60, static_cast<size_t>(T) * static_cast<size_t>(H));
  const TestRouting routing(c);
  const TestMatrix matrix(stream, weights, Origin::kStored,
                          {.rows = 2 * I, .cols = H, .num_matrices = E, .order = RowOrder::kGateAndUp},
                          c.values, c.seed + 61);
  const auto bias = random_floats(c.values, c.seed + 63, static_cast<size_t>(E) * static_cast<size_t>(2 * I));
  const DeviceArray<uint16_t> device_normed(normed);
  const DeviceArray<float> device_bias(bias);
  const DeviceArray<uint16_t> gated(static_cast<size_t>(T * K) * static_cast<size_t>(I));
  check(cudaDeviceSynchronize(), "preparing a check");
  up(stream, {bf16(device_normed), routing.view(), T, routing.max_groups(), H, I, matrix.strips(),
              device_bias.data(), kLimit, bf16(gated)});
  check(cudaStreamSynchronize(stream), "checking up");

  const auto actual = gated.read(comparison, "gated");
  const Activations x(T, H, normed);
  routing.for_each_expert([&](int e, const std::vector<int>& pairs) {
    std::vector<int> tokens;
    for (const int pair : pairs) tokens.push_back(pair / K);
    const Products products = matrix.times(x, tokens, e);
    for (size_t p = 0; p < pairs.size(); ++p)
      for (int i = 0; i < I; ++i) {
        const size_t at = products.at(static_cast<int>(p), 2 * i);
        const float* biases = bias.data() + static_cast<size_t>(e) * static_cast<size_t>(2 * I) + 2 * i;
        const Near expected =
            swiglu(with_bias(products, at, biases[0]), with_bias(products, at + 1, biases[1]));
        comparison.near_bf16(
            "gated", pairs[p], i,
            actual[static_cast<size_t>(pairs[p]) * static_cast<size_t>(I) + static_cast<size_t>(i)],
            expected.value, expected.bound);
      }
  });
}

void check_down_case(Comparison& comparison, Stream stream, Format weights, const Case& c) {
  const int T = c.num_tokens, H = c.shape.hidden, I = c.shape.intermediate, E = c.shape.num_experts,
            num_pairs = T * c.shape.experts_per_token;
  const auto gated =
      random_bf16(c.values, c.seed + 70, static_cast<size_t>(num_pairs) * static_cast<size_t>(I));
  const TestRouting routing(c);
  const TestMatrix matrix(stream, weights, Origin::kStored, {.rows = H, .cols = I, .num_matrices = E},
                          c.values, c.seed + 71);
  const auto bias = random_floats(c.values, c.seed + 73, static_cast<size_t>(E) * static_cast<size_t>(H));
  const DeviceArray<uint16_t> device_gated(gated);
  const DeviceArray<float> device_bias(bias);
  const DeviceArray<float> out(static_cast<size_t>(num_pairs) * static_cast<size_t>(H));
  check(cudaDeviceSynchronize(), "preparing a check");
  down(stream, {bf16(device_gated), routing.view(), T, routing.max_groups(), H, I, matrix.strips(),
                device_bias.data(), out.data()});
  check(cudaStreamSynchronize(stream), "checking down");

  const auto actual = out.read(comparison, "out");
  const Activations x(num_pairs, I, gated);
  routing.for_each_expert([&](int e, const std::vector<int>& pairs) {
    const Products products = matrix.times(x, pairs, e);
    for (size_t p = 0; p < pairs.size(); ++p)
      for (int i = 0; i < H; ++i) {
        const Near sum =
            with_bias(products, products.at(static_cast<int>(p), i),
                      bias[static_cast<size_t>(e) * static_cast<size_t>(H) + static_cast<size_t>(i)]);
        // Chosen by the kernel, or by us and then a float32; and the product's rounding.
        const double weight = routing.weight(pairs[p]),
                     rounding = 0x1p-23 * weight + routing.weight_bound(pairs[p]);
        comparison.near(
            "out", pairs[p], i,
            actual[static_cast<size_t>(pairs[p]) * static_cast<size_t>(H) + static_cast<size_t>(i)],
            weight * sum.value, weight * sum.bound + rounding * (std::abs(sum.value) + sum.bound));
      }
  });
}

template <typename CheckCase>
KernelFinding check_cases(const KernelRow& row, const CheckCase& check_case) {
  prepare_experts();
  Comparison comparison;
  const OwnedStream stream;
  for_each_case(row, [&](const Case& c) {
    comparison.begin(c.text());
    check_case(comparison, stream, row.weights, c);
  });
  return comparison.finding();
}

}  // namespace

KernelFinding check_up(const KernelRow& row) { return check_cases(row, check_up_case); }
KernelFinding check_down(const KernelRow& row) { return check_cases(row, check_down_case); }

}  // namespace nibble::cuda::verify
