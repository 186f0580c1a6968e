// Checks of experts_up, experts_down and route_and_experts_up (routing and experts_up in one launch).
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/verify/blocks.h"
#include "backend/cuda/verify/checks.h"
#include "backend/cuda/verify/choice.h"
#include "backend/cuda/verify/matrix.h"
#include "backend/cuda/verify/residual.h"
#include "backend/cuda/verify/same_bits.h"
#include "backend/cuda/verify/shapes.h"

namespace nibble::cuda::verify {
namespace {

constexpr float kLimit{7};

// The choices of all tokens. A pair's number is token * K + index of the expert among the token's choices.
class TestRouting {
 public:
  TestRouting(std::vector<ExpectedRouting> choices, const IndexRange& own)
      : choices_(std::move(choices)), own_(own) {}
  explicit TestRouting(const Case& c)
      : own_{0, c.shape.num_experts},
        logits_(random_floats(c.values == Values::kTypical ? Values::kTypical : Values::kEqual, c.seed + 50,
                              c.num_tokens * c.shape.num_experts)) {
    for (int t = 0; t < c.num_tokens; ++t)
      choices_.push_back(
          choose(logits_.data() + t * c.shape.num_experts, c.shape.num_experts, c.shape.experts_per_token));
  }

  const std::vector<ExpectedRouting>& choices() const { return choices_; }
  const std::vector<float>& logits() const { return logits_; }  // [T, E]: the router's logits
  double weight(int pair) const { return choices_[token_of(pair)].weights[pair % per_token()]; }
  size_t token_of(int pair) const { return pair / per_token(); }

  void leave_out_all_but(const IndexRange& own) { own_ = own; }
  // Calls body(expert, the expert's pairs) for each of this rank's experts, which are numbered from 0.
  template <typename Body>
  void for_each_expert(const Body& body) const {
    std::map<int, std::vector<int>> pairs;
    int pair = 0;
    for (const ExpectedRouting& choice : choices_)
      for (const int e : choice.experts) pairs[e].push_back(pair++);
    std::erase_if(pairs, [&](const auto& of) { return !own_.has(of.first); });
    for (const auto& [expert, of_expert] : pairs) body(expert - own_.first, of_expert);
  }

 private:
  size_t per_token() const { return choices_.front().experts.size(); }

  std::vector<ExpectedRouting> choices_;
  IndexRange own_;
  std::vector<float> logits_;
};

double swish(double gate) { return gate / (1 + std::exp(-1.702 * gate)); }

// Computes swish(min(gate, limit)) (clamp(up, -limit, limit) + 1) and its bound, for gate and up within their
// bounds. swish is smallest at -1.2784 / 1.702. The kernels' errors are: 2 ulp for the exponential; two
// roundings of the exponential's argument, by 1.702 |gate| 2^-24 each; 2 ulp for the division (CUDA C++
// Programming Guide: __fdividef); and 4 other roundings. If the exponential is near or above the largest
// float32, the result may also be off by 2^-117.
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

Near with_bias(const Products& products, size_t at, float bias) {
  return {products.sums[at] + double{bias},
          products.bounds[at] + 0x1p-23 * (std::abs(products.sums[at]) + std::abs(double{bias}))};
}

class TestUp {
 public:
  // `image_pairs`: number of rows of the results' image; 0: the results are plain rows.
  TestUp(const Case& c, Stream stream, Format weights, int image_pairs = 0)
      : hidden_(c.shape.hidden),
        intermediate_(c.shape.intermediate),
        matrix_(stream, weights, Origin::kStored,
                {.rows = 2 * intermediate_,
                 .cols = hidden_,
                 .num_matrices = c.shape.num_experts,
                 .order = RowOrder::kGateAndUp},
                {c.values, c.seed + 61}),
        bias_(random_floats(c.values, c.seed + 63, size_t{2} * c.shape.num_experts * intermediate_)),
        device_bias_(bias_),
        gated_(std::max(size_t{1} * c.num_tokens * c.shape.experts_per_token * intermediate_,
                        image_bytes(image_pairs, intermediate_) / 2)),
        num_pairs_(c.num_tokens * c.shape.experts_per_token) {}

  UpWeights weights() const {
    return {matrix_.strips(), device_bias_.data(), hidden_, intermediate_, kLimit};
  }
  __nv_bfloat16* gated() const { return bf16(gated_); }
  const DeviceArray<uint16_t>& gated_array() const { return gated_; }
  // Returns the results of all pairs. If `image_pairs` is not 0, reads them from an image.
  std::vector<uint16_t> read(Comparison& comparison, int image_pairs,
                             const std::vector<int>& image_row) const {
    std::vector<uint16_t> gated = gated_.read(comparison, "gated");
    if (image_pairs == 0) {
      gated.resize(size_t{1} * num_pairs_ * intermediate_);
      return gated;
    }
    gated.resize(image_bytes(image_pairs, intermediate_) / 2);
    check_padding(comparison, "padding of gated", gated, intermediate_, image_row);
    return from_image(gated, intermediate_, image_row);
  }

  // Calls visit(pair, numbers) with the expected results [I] of each pair, before the kernel rounds them.
  template <typename Visit>
  void for_each_pair(const Activations& x, const TestRouting& routing, const Visit& visit) const {
    std::vector<Near> numbers(intermediate_);
    routing.for_each_expert([&](int e, const std::vector<int>& pairs) {
      std::vector<int> tokens;
      for (const int pair : pairs) tokens.push_back(static_cast<int>(routing.token_of(pair)));
      const Products products = matrix_.times(x, tokens, e);
      for (size_t p = 0; p < pairs.size(); ++p) {
        for (int i = 0; i < intermediate_; ++i) {
          const size_t at = products.at(static_cast<int>(p), 2 * i);
          const float* biases = bias_.data() + size_t{2} * (e * intermediate_ + i);
          numbers[i] = swiglu(with_bias(products, at, biases[0]), with_bias(products, at + 1, biases[1]));
        }
        visit(pairs[p], numbers);
      }
    });
  }

  void compare(Comparison& comparison, const Activations& x, const TestRouting& routing,
               const std::vector<uint16_t>& actual) const {
    for_each_pair(x, routing, [&](int pair, const std::vector<Near>& numbers) {
      for (int i = 0; i < intermediate_; ++i) {
        const auto& [value, bound] = numbers[i];
        const size_t place = size_t{1} * pair * intermediate_ + i;
        comparison.near_bf16({"gated", pair, i}, actual[place], value, bound);
      }
    });
  }

 private:
  int hidden_, intermediate_;
  TestMatrix matrix_;
  std::vector<float> bias_;
  DeviceArray<float> device_bias_;
  DeviceArray<uint16_t> gated_;
  int num_pairs_;
};

Case of_rank(Case c, const IndexRange& own) {
  c.shape.num_experts = own.count;
  return c;
}

DeviceGroups groups_of(const TestRouting& routing, const Case& c, int size) {
  const int num_experts = c.shape.num_experts;
  return DeviceGroups(routing.choices(), num_experts,
                      max_num_groups(c.num_tokens, num_experts, c.shape.experts_per_token, size), size);
}

DeviceGroups poisoned_groups(const Case& c, int size) {  // returns groups that a kernel must not read
  const int T = c.num_tokens, K = c.shape.experts_per_token;
  return DeviceGroups(T, K, max_num_groups(T, c.shape.num_experts, K, size), size);
}

// A case's routing as the kernel gets it: as groups or, in steps of few pairs, by mailbox.
struct RoutedCase {
  RoutedCase(const Subject& subject, const Case& c)
      : c(c),
        // If false, the kernel reads groups. That depends on the number of pairs and on the kernel: some
        // kernels always read groups, and `nibble tune` also runs them in steps of few pairs.
        has_mailbox(are_matched(c.num_tokens, c.shape.experts_per_token, subject.row.pass.columns,
                                subject.row.pass.takes_image)),
        // If the kernel reads groups, this rank holds all experts: groups_of() makes groups of all experts,
        // but groups must contain only pairs of this rank's experts.
        own(has_mailbox ? own_experts(c) : IndexRange{0, c.shape.num_experts}),
        routing(c),
        groups(has_mailbox ? poisoned_groups(c, subject.row.pass.columns)
                           : groups_of(routing, c, subject.row.pass.columns)),
        image_pairs(subject.row.pass.takes_image ? groups.image_pairs() : 0) {
    routing.leave_out_all_but(own);
  }

  const Case& c;
  const bool has_mailbox;
  const IndexRange own;
  TestRouting routing;
  const DeviceGroups groups;
  const int image_pairs;  // number of rows of the image of pairs; 0: pairs are plain rows
};

void check_experts_up_by_blocks(Comparison& comparison, const Subject& subject, const RoutedCase& routed,
                                const TestUp& test, const HostBlocks& normed) {
  const int T = routed.c.num_tokens, K = routed.c.shape.experts_per_token;
  const DeviceBlocks device_normed(normed), gated(normed.format, T * K, routed.c.shape.intermediate);
  subject.run("checking experts_up",
              ExpertsUpArgs{cuda::Activations(device_normed.view()), routed.groups.view(), T, K,
                            routed.groups.max_groups(), test.weights(), cuda::Activations(gated.view())});
  const HostBlocks actual = gated.read(comparison, "gated");
  test.for_each_pair(activations_of(normed, subject.gpu.target.has_block_products), routed.routing,
                     [&](int pair, const std::vector<Near>& numbers) {
                       compare_numbers(comparison, "gated", actual, pair, numbers);
                     });
}

// Returns the kind of the router's values: that of the case, but kTypical if the case has huge or mixed
// values.
Values router_values(const Case& c) {
  return c.values == Values::kHuge || c.values == Values::kMixed ? Values::kTypical : c.values;
}

class TestDown {
 public:
  TestDown(const Case& c, Stream stream, Format weights)
      : hidden_(c.shape.hidden),
        matrix_(stream, weights, Origin::kStored,
                {.rows = c.shape.hidden, .cols = c.shape.intermediate, .num_matrices = c.shape.num_experts},
                {c.values, c.seed + 71}),
        bias_(random_floats(c.values, c.seed + 73, c.shape.num_experts * hidden_)),
        device_bias_(bias_),
        out_(c.num_tokens * c.shape.experts_per_token * hidden_) {}

  const Strips& strips() const { return matrix_.strips(); }
  const float* bias() const { return device_bias_.data(); }
  const DeviceArray<float>& out() const { return out_; }

  void compare(Comparison& comparison, const Activations& x, const TestRouting& routing,
               const std::vector<float>& actual) const {
    routing.for_each_expert([&](int e, const std::vector<int>& pairs) {
      const Products products = matrix_.times(x, pairs, e);
      for (size_t p = 0; p < pairs.size(); ++p)
        for (size_t i = 0; i < hidden_; ++i) {
          const auto column = static_cast<int>(i);
          const Near sum =
              with_bias(products, products.at(static_cast<int>(p), column), bias_[e * hidden_ + i]);
          // Kernels multiply by the routing weight in float32, which rounds once.
          const double weight = routing.weight(pairs[p]);
          comparison.near({"out", pairs[p], column}, actual[pairs[p] * hidden_ + i], weight * sum.value,
                          weight * (sum.bound + 0x1p-23 * (std::abs(sum.value) + sum.bound)));
        }
    });
  }

 private:
  size_t hidden_;
  TestMatrix matrix_;
  std::vector<float> bias_;
  DeviceArray<float> device_bias_, out_;
};

}  // namespace

void check_experts_up(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, H = c.shape.hidden, E = c.shape.num_experts, K = c.shape.experts_per_token;
  const auto normed = random_bf16(c.values, c.seed + 60, size_t{1} * T * H);
  const RoutedCase routed(subject, c);
  const int image_pairs = routed.image_pairs;
  const TestUp test(of_rank(c, routed.own), subject.stream(), subject.row.weights, image_pairs);
  if (const auto format = block_format_of(subject.row))
    return check_experts_up_by_blocks(comparison, subject, routed, test,
                                      quantise_rows(*format, T, H, normed));
  const bool takes_image = subject.row.pass.takes_image;
  const DeviceArray<uint16_t> device_normed(takes_image ? to_image(normed, H) : normed);
  const DeviceRoutingMailbox mailbox({}, T, K);
  const DeviceArray<float> logits(routed.routing.logits());
  const DeviceArray<uint16_t> gathered(image_bytes(image_pairs, H) / 2);
  ExpertsUpArgs args{rows_or_image(bf16(device_normed), takes_image ? whole_eights(T) : 0),
                     routed.groups.view(),
                     T,
                     K,
                     routed.groups.max_groups(),
                     test.weights(),
                     rows_or_image(test.gated(), image_pairs),
                     cuda::Activations::image(bf16(gathered), image_pairs)};
  if (routed.has_mailbox) {
    args.logits = logits.data();
    args.routing = mailbox.view();
    args.num_experts = E;
    args.own = routed.own;
  }
  subject.run("checking experts_up", args);
  if (routed.has_mailbox) mailbox.check_choices(comparison, routed.routing.choices(), routed.own);
  const auto gated = test.read(comparison, image_pairs, routed.groups.image_row_of_pair());
  test.compare(comparison, Activations(T, H, normed), routed.routing, gated);
  gathered.read(comparison, "gathered");
  const DeviceArray<uint16_t> natural(normed);
  const DeviceGroups by_64 = groups_of(routed.routing, c, kManyColumns);
  compare_with_mma(
      comparison, subject,
      ExpertsUpArgs{bf16(natural), by_64.view(), T, K, by_64.max_groups(), test.weights(), test.gated()},
      RowResult{"bits of gated", c.shape.intermediate, test.gated_array(), gated});
}

// Checks a case of route_and_experts_up(). Choices of experts are compared exactly: the expected choices are
// computed from the kernel's own logits.
void check_route_and_experts_up(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, H = c.shape.hidden, E = c.shape.num_experts, K = c.shape.experts_per_token;
  const TestResidual residual(c, T, {.has_rest = true});
  const TestNorm norm(c, residual);
  const TestMatrix router(subject.stream(), Format::kBf16, Origin::kStored, router_shape(E, H),
                          {router_values(c), c.seed + 30});
  const auto bias = random_floats(router_values(c), c.seed + 31, E);
  const DeviceArray<float> device_bias(bias), x(size_t{1} * T * H);
  const DeviceRoutingMailbox routing(router.strips(), T, K);
  const IndexRange own = own_experts(c);
  const TestUp test(of_rank(c, own), subject.stream(), Format::kMxfp4);
  subject.run("checking route_and_experts_up",
              RouteAndExpertsUpArgs{norm.input(), router.strips(), device_bias.data(), T, K, own, x.data(),
                                    routing.view(), test.weights(), test.gated()});

  const auto actual_x = x.read(comparison, "x");
  for (int t = 0; t < T; ++t)
    for (int i = 0; i < H; ++i) comparison.equal("x", t, i, actual_x[t * H + i], residual.at(t, i));
  const Activations normed = norm.normed(numbers_below(T));
  const auto actual_logits = routing.read_logits(comparison, router.strips(), bias);
  std::vector<ExpectedRouting> choices;
  compare_products(comparison, "logits", router.times(normed), bias,
                   [&](size_t at) { return actual_logits[at]; });
  for (int t = 0; t < T; ++t) choices.push_back(choose(actual_logits.data() + t * E, E, K));
  routing.check_choices(comparison, choices, own);
  test.compare(comparison, normed, TestRouting(choices, own), test.read(comparison, 0, {}));
}

void check_experts_down(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, H = c.shape.hidden, I = c.shape.intermediate, K = c.shape.experts_per_token;
  const auto gated = random_bf16(c.values, c.seed + 70, size_t{1} * T * K * I);
  const RoutedCase routed(subject, c);
  const TestDown test(of_rank(c, routed.own), subject.stream(), subject.row.weights);
  const DeviceRoutingMailbox mailbox(routed.routing.choices());
  const DeviceArray<uint16_t> device_gated(
      routed.image_pairs ? to_image(gated, I, routed.groups.image_row_of_pair(), routed.image_pairs) : gated);
  const DeviceArray<unsigned> turns(std::vector<unsigned>(K, 0));
  ExpertsDownArgs args{rows_or_image(bf16(device_gated), routed.image_pairs),
                       routed.groups.view(),
                       routed.has_mailbox ? mailbox.view() : RoutingMailbox{},
                       routed.own,
                       c.shape.num_experts,
                       T,
                       K,
                       routed.groups.max_groups(),
                       H,
                       I,
                       test.strips(),
                       test.bias(),
                       test.out().data(),
                       turns.data()};

  Activations x(T * K, I, gated);
  std::optional<DeviceBlocks> device_blocks;
  if (const auto format = block_format_of(subject.row)) {
    const HostBlocks blocks = quantise_rows(*format, T * K, I, gated);
    x = activations_of(blocks, subject.gpu.target.has_block_products);
    args.gated = cuda::Activations(device_blocks.emplace(blocks).view());
  }
  subject.run("checking experts_down", args);

  const auto actual = test.out().read(comparison, "out");
  for (const unsigned turn : turns.read(comparison, "turns")) comparison.equal("turn", 0, 0, turn, 0);
  test.compare(comparison, x, routed.routing, actual);
  const DeviceArray<uint16_t> natural(gated);
  const DeviceGroups by_64 = groups_of(routed.routing, c, kManyColumns);
  args.gated = bf16(natural);
  args.groups = by_64.view();
  args.max_groups = by_64.max_groups();
  compare_with_mma(comparison, subject, args, RowResult{"bits of out", H, test.out(), actual});
}

}  // namespace nibble::cuda::verify
