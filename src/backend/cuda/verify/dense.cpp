// Checks of rms_norm, qkv, project, route and unembed.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "backend/cuda/chip/check.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/verify/blocks.h"
#include "backend/cuda/verify/checks.h"
#include "backend/cuda/verify/choice.h"
#include "backend/cuda/verify/kernel_input.h"
#include "backend/cuda/verify/residual.h"
#include "backend/cuda/verify/same_bits.h"

namespace nibble::cuda::verify {
namespace {

// Returns element `at` of a result: if the kernel stores two parts, their sum.
double joined(const Subject& subject, const std::vector<float>& parts, size_t at) {
  return double{parts[at]} + (subject.row.pass.leaves_parts ? double{parts[parts.size() / 2 + at]} : 0);
}

// Returns the terms that the norm before attention adds to x: in half of the cases the outputs of the
// previous layer's experts, otherwise none.
TestResidual::Parts before_layer(const Case& c) {
  return {false, c.seed / 100 % 2 ? c.shape.experts_per_token : 0};
}

// Returns scratch memory for segment sums, which qkv_split() and project_split() store for few tokens.
DeviceArray<float> room_for_sums(const Strips& strips, int num_tokens) {
  return DeviceArray<float>(num_tokens <= kSplitTokens ? num_segment_sums(strips, num_tokens) : 0);
}
// Returns the activations that the kernel multiplies. They are exact (slack 0) if the kernel gets the norm as
// input.
Activations multiplied(const Subject& subject, const TestNorm& norm, const std::vector<int>& tokens) {
  Activations normed = norm.normed(tokens);
  if (subject.row.pass.takes_norm) std::ranges::fill(normed.slack, 0.0f);
  return normed;
}

std::vector<uint16_t> read_norm(Comparison& comparison, const DeviceArray<uint16_t>& normed,
                                const cuda::Activations& view, int num_rows, int cols) {
  const std::vector<uint16_t> bits = normed.read(comparison, "normed");
  if (view.image_rows == 0) return bits;
  check_padding(comparison, "normed", bits, cols, numbers_below(num_rows));
  return from_image(bits, cols, numbers_below(num_rows));
}

// Checks x, to which the kernel must have added all terms, and the norm of x.
void check_norm(Comparison& comparison, const TestNorm& norm, int num_tokens, const std::vector<float>& x,
                const std::vector<uint16_t>& normed) {
  const auto expected = norm.numbers(numbers_below(num_tokens));
  const size_t hidden = expected.size() / num_tokens;
  for (int t = 0; t < num_tokens; ++t)
    for (size_t i = 0; i < hidden; ++i) {
      const size_t at = t * hidden + i;
      const auto column = static_cast<int>(i);
      comparison.equal("x", t, column, x[at], norm.residual().at(t, column));
      comparison.near_bf16({"normed", t, column}, normed[at], expected[at].number, expected[at].error);
    }
}

// Runs project() with attended_chunks = 1, as after a short attention. Requires the same bits as in
// `expected`.
void check_after_short_attention(Comparison& comparison, const Subject& subject, ProjectArgs args,
                                 const std::vector<float>& expected) {
  const DeviceArray<float> parts(expected.size());
  args.attended_chunks = 1;  // may make project() prefetch less at first (spares_attention())
  args.parts = parts.data();
  subject.run("checking project after a short attention", args);
  const std::vector<float> actual = parts.read(comparison, "parts");
  const int rows = args.residual.hidden;
  for (int t = 0; t < args.num_tokens; ++t)
    for (int row = 0; row < rows; ++row) {
      const size_t at = size_t{1} * t * rows + row;
      comparison.equal("bits after a short attention", t, row, joined(subject, actual, at),
                       joined(subject, expected, at));
    }
}

// Checks the groups' sizes, image rows and pairs. Returns each pair's expert, or -1 if the pair is in no
// group.
std::vector<int> check_groups(Comparison& comparison, const GroupsRead& read, const DeviceGroups& groups,
                              int num_pairs) {
  const int max_groups = groups.max_groups(), size = groups.size();
  comparison.equal("number of groups", 0, 0, std::max(read.count, max_groups), max_groups);
  std::vector<int> expert_of_pair(num_pairs, -1);
  int image_row = 0;
  for (int group = 0; group < std::min(read.count, max_groups); ++group) {
    const int of_group = read.num_pairs[group];
    comparison.equal("group size", group, 0, std::clamp(of_group, 1, size), of_group);
    comparison.equal("row of group", group, 0, read.image_row[group], image_row);
    image_row += whole_eights(of_group);
    for (int i = 0; i < std::clamp(of_group, 0, size); ++i) {
      const int pair = read.pairs[group * size + i];
      const bool is_new = pair >= 0 && pair < num_pairs && expert_of_pair[pair] < 0;
      comparison.equal("pair in one group", group, i, is_new, true);
      if (is_new) expert_of_pair[pair] = read.expert[group];
    }
  }
  return expert_of_pair;
}

// Checks the chosen experts. They must be exact, because the expected choices are computed from the kernel's
// own logits. Experts of other ranks have no groups.
void check_choices(Comparison& comparison, const Case& c, const std::vector<float>& logits,
                   const DeviceGroups& groups) {
  const IndexRange own = own_experts(c);
  const int T = c.num_tokens, E = c.shape.num_experts, K = c.shape.experts_per_token;
  const GroupsRead read = groups.read(comparison);
  const std::vector<int> expert_of_pair = check_groups(comparison, read, groups, T * K);
  for (int t = 0; t < T; ++t) {
    const ExpectedRouting choice = choose(logits.data() + t * E, E, K);
    for (int k = 0; k < K; ++k) {
      const int expert = choice.experts[k];
      comparison.equal("expert", t, k, expert_of_pair[t * K + k], own.has(expert) ? expert - own.first : -1);
      choice.check_weight(comparison, t, k, read.weight[t * K + k], own);
    }
  }
}

class TestRouter {
 public:
  TestRouter(const Subject& subject, const Case& c)
      : c_(c),
        own_(own_experts(c)),
        matrix_(subject.stream(), subject.row.weights, Origin::kStored,
                router_shape(c.shape.num_experts, c.shape.hidden), {c.values, c.seed + 30}),
        bias_(random_floats(c.values, c.seed + 31, c.shape.num_experts)),
        device_bias_(bias_),
        logits_(c.num_tokens * bias_.size()),
        rank_(num_pairs()),
        ticket_(std::vector<unsigned>{0}),
        groups_(c.num_tokens, c.shape.experts_per_token,
                max_num_groups(c.num_tokens, own_.count, c.shape.experts_per_token, subject.row.pass.columns),
                subject.row.pass.columns) {}

  RouteArgs args(const cuda::Activations& normed) const {
    return {c_.shape.hidden,
            matrix_.strips(),
            device_bias_.data(),
            c_.num_tokens,
            c_.shape.experts_per_token,
            own_,
            normed,
            logits_.data(),
            groups_.chosen(),
            rank_.data(),
            ticket_.data(),
            groups_.view()};
  }
  const DeviceArray<float>& logits() const { return logits_; }

  void compare_logits(Comparison& comparison, const Activations& x, const std::vector<float>& actual) const {
    compare_products(comparison, "logits", matrix_.times(x), bias_, [&](size_t at) { return actual[at]; });
  }
  // Checks that the groups follow from `logits`, unless experts_up() chooses the experts (are_matched()).
  void check_routing(Comparison& comparison, const std::vector<float>& logits, bool takes_image) const {
    if (!are_matched(c_.num_tokens, c_.shape.experts_per_token, groups_.size(), takes_image))
      check_choices(comparison, c_, logits, groups_);
    comparison.equal("ticket", 0, 0, ticket_.read(comparison, "ticket")[0], 0);
  }

 private:
  int num_pairs() const { return c_.num_tokens * c_.shape.experts_per_token; }

  const Case& c_;
  IndexRange own_;
  TestMatrix matrix_;
  std::vector<float> bias_;
  DeviceArray<float> device_bias_, logits_;
  DeviceArray<int> rank_;
  DeviceArray<unsigned> ticket_;
  DeviceGroups groups_;
};

// Launches route() with arguments that let it also compute the norm. Checks x and the norm. Returns the norm.
Activations route_with_norm(Comparison& comparison, const Subject& subject, RouteArgs args,
                            const TestNorm& norm, const DeviceArray<uint16_t>& normed) {
  const int T = args.num_tokens, H = args.hidden;
  const DeviceArray<float> x(size_t{1} * T * H);
  args.norm = norm.input();
  args.x = x.data();
  normed.poison();
  subject.run("checking route with the norm", args);
  const auto bits = read_norm(comparison, normed, args.normed, T, H);
  check_norm(comparison, norm, T, x.read(comparison, "x"), bits);
  return Activations(T, H, bits);
}

}  // namespace

void check_rms_norm(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, H = c.shape.hidden;
  const bool is_in_place = c.seed / 100 % 2;
  const TestResidual residual(c, T, {is_in_place, is_in_place ? 0 : c.shape.experts_per_token});
  const TestNorm norm(c, residual);
  const size_t size = size_t{1} * T * H;
  const DeviceArray<float> x(size);
  const int image_rows = c.seed / 100 % 3 == 0 ? whole_eights(T) : 0;
  const DeviceArray<uint16_t> normed(image_rows ? image_bytes(image_rows, H) / 2 : size);
  const cuda::Activations normed_view = rows_or_image(bf16(normed), image_rows);
  NormInput input = norm.input();
  if (is_in_place) {
    check(cudaMemcpy(x.data(), input.residual.x, size * sizeof(float), cudaMemcpyDeviceToDevice),
          "copying inputs");
    input.residual.x = x.data();
  }
  // In every fourth case, rms_norm stores no block-scaled norm. In the other cases, rms_norm also stores the
  // norm in one of the three block-scaled formats.
  const size_t kind = c.seed / 100 % (1 + std::size(kBlockFormats));
  std::optional<DeviceBlocks> blocks;
  if (kind > 0) blocks.emplace(kBlockFormats[kind - 1], T, H);
  subject.run("checking rms_norm",
              RmsNormArgs{input, T, x.data(), normed_view, blocks ? blocks->view() : BlockRows{}});

  const auto actual_x = x.read(comparison, "x");
  const auto actual = read_norm(comparison, normed, normed_view, T, H);
  check_norm(comparison, norm, T, actual_x, actual);
  if (blocks)
    compare_bytes(comparison, "blocks", blocks->read(comparison, "blocks"),
                  quantise_rows(kBlockFormats[kind - 1], T, H, actual));
}

void check_qkv(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, rows = (c.shape.num_heads + 2 * c.shape.num_kv_heads) * kHeadDim;
  const TestResidual residual(c, T, before_layer(c));
  const TestNorm norm(c, residual);
  const TestMatrix matrix(subject.stream(), subject.row.weights, Origin::kQuantised, {rows, c.shape.hidden},
                          {c.values, c.seed + 10});
  const auto bias = random_floats(c.values, c.seed + 11, rows);
  const DeviceArray<float> device_bias(bias), parts(size_t{2} * T * rows);
  const Activations x = multiplied(subject, norm, numbers_below(T));
  const KernelInput normed(subject, x);
  const DeviceArray<float> sums = room_for_sums(matrix.strips(), T);
  QkvArgs args{norm.input(), normed.view(), matrix.strips(), device_bias.data(), T,
               parts.data(), sums.data()};
  subject.run("checking qkv", args);

  const std::vector<float> actual = parts.read(comparison, "parts");
  sums.read(comparison, "sums of segments");
  compare_products(comparison, "qkv", matrix.times(normed.multiplied()), bias,
                   [&](size_t at) { return joined(subject, actual, at); });
  const DeviceArray<uint16_t> natural(bits_of(x));
  args.normed = bf16(natural);
  compare_with_mma(comparison, subject, args, RowResult{"bits of qkv", rows, parts, actual});
}

void check_project(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, rows = c.shape.hidden, cols = c.shape.num_heads * kHeadDim;
  const TestResidual residual(
      // If the kernel gets the norm as input, rms_norm has already added the other terms to x.
      c, T, subject.row.pass.takes_norm ? TestResidual::Parts{} : before_layer(c));
  const auto attended = random_bf16(c.values, c.seed + 20, size_t{1} * T * cols);
  const TestMatrix matrix(subject.stream(), subject.row.weights, Origin::kQuantised, {rows, cols},
                          {c.values, c.seed + 21});
  const auto bias = random_floats(c.values, c.seed + 22, rows);
  const DeviceArray<uint16_t> device_attended(subject.row.pass.takes_image ? to_image(attended, cols)
                                                                           : attended);
  const DeviceArray<float> device_bias(bias), parts(size_t{2} * T * rows);
  Activations x(T, cols, attended);
  std::optional<HostBlocks> blocks;
  if (const auto format = block_format_of(subject.row)) {
    blocks = quantise_rows(*format, T, cols, attended);
    x = activations_of(*blocks, subject.gpu.target.has_block_products);
  }
  const DeviceArray<float> sums = blocks ? room_for_blocks(*blocks) : room_for_sums(matrix.strips(), T);
  ProjectArgs args{given(subject, device_attended, T),
                   cols,
                   residual.input(),
                   matrix.strips(),
                   device_bias.data(),
                   T,
                   parts.data(),
                   sums.data()};
  subject.run("checking project", args);

  const std::vector<float> actual = parts.read(comparison, "parts");
  const std::vector<float> scratch = sums.read(comparison, "sums of segments");
  if (blocks) compare_scratch(comparison, scratch, *blocks);
  const Products expected = matrix.times(x);
  for (int t = 0; t < T; ++t)
    for (int row = 0; row < rows; ++row) {
      const size_t at = expected.at(t, row);
      // Adding the bias and the stream may add two rounding errors to each term, as in compare_products().
      const double before = residual.at(t, row), b = bias[row];
      comparison.near(
          {"x", t, row}, joined(subject, actual, at), before + b + expected.sums[at],
          expected.bounds[at] + 0x1p-23 * (std::abs(expected.sums[at]) + std::abs(before) + std::abs(b)));
    }
  check_after_short_attention(comparison, subject, args, actual);
  const DeviceArray<uint16_t> natural(attended);
  args.attended = bf16(natural);
  compare_with_mma(comparison, subject, args, RowResult{"bits of project", rows, parts, actual});
}

void check_route(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, E = c.shape.num_experts;
  const TestResidual residual(c, T, {.has_rest = true});
  const TestNorm norm(c, residual);
  Activations x = multiplied(subject, norm, numbers_below(T));
  const DeviceArray<uint16_t> normed = given_norm(subject, x);
  const TestRouter router(subject, c);
  RouteArgs args = router.args(given(subject, normed, T));
  std::vector<float> with_norm;  // logits of the launch that also computes the norm
  if (subject.row.pass.makes_norm && T <= kRouterNorms) {
    x = route_with_norm(comparison, subject, args, norm, normed);
    with_norm = router.logits().read(comparison, "logits with the norm");
    router.logits().poison();
  }
  subject.run("checking route", args);

  const auto logits = router.logits().read(comparison, "logits");
  if (!with_norm.empty()) compare_bits(comparison, "logits with the norm", E, with_norm, logits);
  router.compare_logits(comparison, x, logits);
  router.check_routing(comparison, logits, args.normed.image_rows > 0);
  const DeviceArray<uint16_t> natural(bits_of(x));
  args.normed = bf16(natural);
  compare_with_mma(comparison, subject, args, RowResult{"bits of logits", E, router.logits(), logits});
}

void check_unembed(Comparison& comparison, const Subject& subject, const Case& c) {
  const int num_rows = c.num_tokens, num_tokens = num_rows + 3, vocab = c.shape.vocab;
  std::vector<int> rows(num_rows);
  for (int i = 0; i < num_rows; ++i) rows[i] = (7 * i + 1) % num_tokens;
  const TestResidual residual(c, num_tokens, {false, c.shape.experts_per_token});
  const TestNorm norm(c, residual);
  const TestMatrix matrix(subject.stream(), subject.row.weights, Origin::kQuantised, {vocab, c.shape.hidden},
                          {c.values, c.seed + 40});
  const DeviceArray<int> device_rows(rows);
  const DeviceArray<float> logits(size_t{1} * num_rows * vocab);
  const Activations x = multiplied(subject, norm, rows);
  const KernelInput normed(subject, x);
  UnembedArgs args{norm.input(), device_rows.data(), num_rows, matrix.strips(), logits.data(), normed.view()};
  const DeviceArray<unsigned> deals(std::vector<unsigned>(1 + kMostDeals));
  args.deals = deals.data();
  subject.run("checking unembed", args);
  for (const unsigned number : deals.read(comparison, "deals")) comparison.equal("deals", 0, 0, number, 0);

  const auto actual = logits.read(comparison, "logits");
  compare_products(comparison, "logits", matrix.times(normed.multiplied()), {},
                   [&](size_t at) { return actual[at]; });
  const DeviceArray<uint16_t> natural(bits_of(x));
  args.normed = bf16(natural);
  compare_with_mma(comparison, subject, args, RowResult{"bits of logits", vocab, logits, actual});
}

}  // namespace nibble::cuda::verify
