// The checks of rms_norm, qkv, project, route and unembed.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "backend/cuda/chip/check.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/chip/wait.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/image.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/verify/blocks.h"
#include "backend/cuda/verify/checks.h"
#include "backend/cuda/verify/choice.h"
#include "backend/cuda/verify/residual.h"
#include "backend/cuda/verify/same_bits.h"

namespace nibble::cuda::verify {
namespace {

constexpr int kHeadDim{64};

// Returns the bound of a sum after a few more float32 additions and products: two roundings of each operand
// are added.
double with_rest(double bound, double a, double b, double c = 0) {
  return bound + 0x1p-23 * (std::abs(a) + std::abs(b) + std::abs(c));
}

// Returns a sum, adding its two parts as its reader does, if there are two.
double joined(const Subject& subject, const std::vector<float>& parts, size_t at) {
  return double{parts[at]} + (subject.row.pass.leaves_parts ? double{parts[parts.size() / 2 + at]} : 0);
}

// Returns the terms that a layer must add to x: none in the first layer, the experts' outputs in the others.
TestResidual::Parts before_layer(const Case& c) {
  return {false, c.seed / 100 % 2 ? c.shape.experts_per_token : 0};
}

std::vector<uint16_t> bits_of(const Activations& normed) {
  std::vector<uint16_t> bits(normed.size());
  std::transform(normed.values.begin(), normed.values.end(), bits.begin(),
                 [](float value) { return to_bf16(value).bits; });
  return bits;
}
// Returns the norm for a kernel that takes it as input; otherwise memory for the norm that the kernel
// computes.
DeviceArray<uint16_t> given_norm(const Subject& subject, const Activations& normed) {
  if (!subject.row.pass.takes_norm)
    return DeviceArray<uint16_t>(normed.size());  // poison, which route() overwrites
  const std::vector<uint16_t> bits = bits_of(normed);
  return DeviceArray<uint16_t>(subject.row.pass.takes_image ? to_image(bits, normed.cols) : bits);
}
// Returns the norm, or other activations of `num_rows` rows, as an argument of the kernel.
cuda::Activations given(const Subject& subject, const DeviceArray<uint16_t>& activations, int num_rows) {
  return rows_or_image(bf16(activations), subject.row.pass.takes_image ? whole_eights(num_rows) : 0);
}
// Returns room for the sums of segments, for numbers of tokens at which a kernel may leave them (qkv_split()
// and project_split()).
DeviceArray<float> room_for_sums(const Strips& strips, int num_tokens) {
  return DeviceArray<float>(num_tokens <= kSplitTokens ? num_segment_sums(strips, num_tokens) : 0);
}
// Returns the activations that the kernel multiplies with.
Activations multiplied(const Subject& subject, const TestNorm& norm, int num_tokens) {
  Activations normed = norm.normed(all_tokens(num_tokens));
  if (subject.row.pass.takes_norm) std::fill(normed.slack.begin(), normed.slack.end(), 0.0f);
  return normed;
}

// Compares x after adding its terms, and its norm.
void check_norm(Comparison& comparison, const TestResidual& residual, const TestNorm& norm, int num_tokens,
                const std::vector<float>& x, const std::vector<uint16_t>& normed) {
  const auto expected = norm.numbers(all_tokens(num_tokens));
  const size_t hidden = expected.size() / static_cast<size_t>(num_tokens);
  for (int t = 0; t < num_tokens; ++t)
    for (size_t i = 0; i < hidden; ++i) {
      const size_t at = static_cast<size_t>(t) * hidden + i;
      const auto column = static_cast<int>(i);
      comparison.equal("x", t, column, x[at], residual.at(t, column));
      comparison.near_bf16("normed", t, column, normed[at], expected[at].number, expected[at].error);
    }
}

void check_rms_norm_case(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, H = c.shape.hidden;
  const bool is_in_place = c.seed / 100 % 2;
  const TestResidual residual(c, T, {is_in_place, is_in_place ? 0 : c.shape.experts_per_token});
  const TestNorm norm(c, residual);
  const size_t size = static_cast<size_t>(T) * static_cast<size_t>(H);
  const DeviceArray<float> x(size);
  const int image_rows = c.seed / 100 % 3 == 0 ? whole_eights(T) : 0;
  const DeviceArray<uint16_t> normed(image_rows ? image_bytes(image_rows, H) / 2 : size);
  NormInput input = norm.input();
  if (is_in_place) {
    check(cudaMemcpy(x.data(), input.residual.x, size * sizeof(float), cudaMemcpyDeviceToDevice),
          "copying inputs");
    input.residual.x = x.data();
  }
  check(cudaDeviceSynchronize(), "preparing a check");
  // Every fourth case has no blocks, the others have blocks in one of their formats.
  const size_t kind = c.seed / 100 % (1 + std::size(kBlockFormats));
  std::optional<DeviceBlocks> blocks;
  if (kind > 0) blocks.emplace(kBlockFormats[kind - 1], T, H);
  subject.launch(RmsNormArgs{input, T, x.data(), rows_or_image(bf16(normed), image_rows),
                             blocks ? blocks->view() : BlockRows{}});
  wait_for_stream(subject.stream(), "checking rms_norm");

  const auto actual_x = x.read(comparison, "x");
  auto actual = normed.read(comparison, "normed");
  if (image_rows) {
    check_padding(comparison, "normed", actual, T, H);
    actual = from_image(actual, T, H);
  }
  check_norm(comparison, residual, norm, T, actual_x, actual);
  if (blocks)
    compare_bytes(comparison, "blocks", blocks->read(comparison, "blocks"),
                  quantise_rows(kBlockFormats[kind - 1], T, H, actual));
}

void check_qkv_case(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, rows = (c.shape.num_heads + 2 * c.shape.num_kv_heads) * kHeadDim;
  const TestResidual residual(c, T, before_layer(c));
  const TestNorm norm(c, residual);
  const TestMatrix matrix(subject.stream(), subject.row.weights, Origin::kQuantised, {rows, c.shape.hidden},
                          c.values, c.seed + 10);
  const auto bias = random_floats(c.values, c.seed + 11, static_cast<size_t>(rows));
  const DeviceArray<float> device_bias(bias);
  const DeviceArray<float> parts(2 * static_cast<size_t>(T) * static_cast<size_t>(rows));
  const Activations x = multiplied(subject, norm, T);
  const DeviceArray<uint16_t> normed = given_norm(subject, x);
  const DeviceArray<float> sums = room_for_sums(matrix.strips(), T);
  check(cudaDeviceSynchronize(), "preparing a check");
  QkvArgs args{norm.input(), given(subject, normed, T), matrix.strips(), device_bias.data(), T, parts.data(),
               sums.data()};
  subject.launch(args);
  wait_for_stream(subject.stream(), "checking qkv");

  const std::vector<float> actual = parts.read(comparison, "parts");
  sums.read(comparison, "sums of segments");
  const Products expected = matrix.times(x);
  for (int t = 0; t < T; ++t)
    for (int row = 0; row < rows; ++row) {
      const size_t at = expected.at(t, row);
      const double b = bias[static_cast<size_t>(row)];
      comparison.near("qkv", t, row, joined(subject, actual, at), expected.sums[at] + b,
                      with_rest(expected.bounds[at], expected.sums[at], b));
    }
  const DeviceArray<uint16_t> natural(bits_of(x));
  args.normed = bf16(natural);
  compare_with_mma(comparison, subject, "bits of qkv", rows, args, parts, actual);
}

void check_project_case(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, rows = c.shape.hidden, cols = c.shape.num_heads * kHeadDim;
  const TestResidual residual(
      // Otherwise rms_norm adds the terms.
      c, T, subject.row.pass.takes_norm ? TestResidual::Parts{} : before_layer(c));
  const auto attended =
      random_bf16(c.values, c.seed + 20, static_cast<size_t>(T) * static_cast<size_t>(cols));
  const TestMatrix matrix(subject.stream(), subject.row.weights, Origin::kQuantised, {rows, cols}, c.values,
                          c.seed + 21);
  const auto bias = random_floats(c.values, c.seed + 22, static_cast<size_t>(rows));
  const DeviceArray<uint16_t> device_attended(subject.row.pass.takes_image ? to_image(attended, cols)
                                                                           : attended);
  const DeviceArray<float> device_bias(bias);
  const DeviceArray<float> parts(2 * static_cast<size_t>(T) * static_cast<size_t>(rows));
  const DeviceArray<float> sums = room_for_sums(matrix.strips(), T);
  check(cudaDeviceSynchronize(), "preparing a check");
  ProjectArgs args{given(subject, device_attended, T),
                   cols,
                   residual.input(),
                   matrix.strips(),
                   device_bias.data(),
                   T,
                   parts.data(),
                   sums.data()};
  subject.launch(args);
  wait_for_stream(subject.stream(), "checking project");

  const std::vector<float> actual = parts.read(comparison, "parts");
  sums.read(comparison, "sums of segments");
  const Products expected = matrix.times(Activations(T, cols, attended));
  for (int t = 0; t < T; ++t)
    for (int row = 0; row < rows; ++row) {
      const size_t at = expected.at(t, row);
      const double x = residual.at(t, row), b = bias[static_cast<size_t>(row)];
      comparison.near("x", t, row, joined(subject, actual, at), x + b + expected.sums[at],
                      with_rest(expected.bounds[at], expected.sums[at], x, b));
    }
  const DeviceArray<float> parts_behind_short(2 * static_cast<size_t>(T) * static_cast<size_t>(rows));
  ProjectArgs behind_short_args = args;
  behind_short_args.attended_chunks = 1;  // rings are then filled in a different order
  behind_short_args.parts = parts_behind_short.data();
  subject.launch(behind_short_args);
  wait_for_stream(subject.stream(), "checking project behind a short attention");
  const std::vector<float> behind_short = parts_behind_short.read(comparison, "parts");
  for (int t = 0; t < T; ++t)
    for (int row = 0; row < rows; ++row) {
      const size_t at = expected.at(t, row);
      comparison.equal("bits behind a short attention", t, row, joined(subject, behind_short, at),
                       joined(subject, actual, at));
    }
  const DeviceArray<uint16_t> natural(attended);
  args.attended = bf16(natural);
  compare_with_mma(comparison, subject, "bits of project", rows, args, parts, actual);
}

// The choice is compared exactly, because it is derived from the kernel's own logits. Pairs of experts of
// other ranks are in no group.
void check_choices(Comparison& comparison, const Case& c, const std::vector<float>& logits,
                   const DeviceGroups& groups, int max_groups, int size) {
  const IndexRange own = own_experts(c);
  const int T = c.num_tokens, E = c.shape.num_experts, K = c.shape.experts_per_token;
  const GroupsRead read = groups.read(comparison);
  comparison.equal("groups at most", 0, 0, std::max(read.count, max_groups), max_groups);
  std::vector<int> expert_of_pair(static_cast<size_t>(T * K), -1);
  int image_row = 0;
  for (int group = 0; group < std::min(read.count, max_groups); ++group) {
    const int num_pairs = read.num_pairs[static_cast<size_t>(group)];
    comparison.equal("group size", group, 0, std::clamp(num_pairs, 1, size), num_pairs);
    comparison.equal("row of group", group, 0, read.image_row[static_cast<size_t>(group)], image_row);
    image_row += whole_eights(num_pairs);
    for (int i = 0; i < std::clamp(num_pairs, 0, size); ++i) {
      const int pair = read.pairs[static_cast<size_t>(group * size + i)];
      const bool is_new = pair >= 0 && pair < T * K && expert_of_pair[static_cast<size_t>(pair)] < 0;
      comparison.equal("pair in one group", group, i, is_new, true);
      if (is_new) expert_of_pair[static_cast<size_t>(pair)] = read.expert[static_cast<size_t>(group)];
    }
  }
  for (int t = 0; t < T; ++t) {
    const TestChoice choice = choose(logits.data() + t * E, E, K);
    for (int k = 0; k < K; ++k) {
      const auto slot = static_cast<size_t>(k), pair = static_cast<size_t>(t * K + k);
      const int expert = choice.experts[slot];
      comparison.equal("expert", t, k, expert_of_pair[pair], own.has(expert) ? expert - own.first : -1);
      check_weight(comparison, t, k, read.weight[pair], choice, own);
    }
  }
}

void check_route_case(Comparison& comparison, const Subject& subject, const Case& c) {
  const int T = c.num_tokens, H = c.shape.hidden, E = c.shape.num_experts, K = c.shape.experts_per_token;
  const auto tokens = static_cast<size_t>(T);
  const TestResidual residual(c, T, {.has_rest = true});
  const TestNorm norm(c, residual);
  const TestMatrix matrix(subject.stream(), subject.row.weights, Origin::kStored, router_shape(E, H),
                          c.values, c.seed + 30);
  const auto bias = random_floats(c.values, c.seed + 31, static_cast<size_t>(E));
  const DeviceArray<float> device_bias(bias), logits(tokens * static_cast<size_t>(E));
  Activations multiplied_with = multiplied(subject, norm, T);
  const DeviceArray<uint16_t> normed = given_norm(subject, multiplied_with);
  const DeviceArray<int> rank(tokens * static_cast<size_t>(K));
  const DeviceArray<unsigned> ticket(std::vector<unsigned>{0});
  const IndexRange own = own_experts(c);
  const int size = subject.row.pass.columns, max_groups = max_num_groups(T, own.count, K, size);
  const DeviceGroups groups(T, K, max_groups, size);
  check(cudaDeviceSynchronize(), "preparing a check");
  RouteArgs args{H,
                 matrix.strips(),
                 device_bias.data(),
                 T,
                 K,
                 own,
                 given(subject, normed, T),
                 logits.data(),
                 groups.chosen(),
                 rank.data(),
                 ticket.data(),
                 groups.view()};
  std::vector<float> with_norm;  // logits of a launch that computes the norm too
  if (subject.row.pass.makes_norm && T <= kRouterNorms) {
    const DeviceArray<float> x(tokens * static_cast<size_t>(H));
    RouteArgs making = args;
    making.norm = norm.input();
    making.x = x.data();
    normed.poison();
    subject.launch(making);
    wait_for_stream(subject.stream(), "checking route with the norm");
    auto bits = normed.read(comparison, "normed");
    if (args.normed.image_rows) {
      check_padding(comparison, "normed", bits, T, H);
      bits = from_image(bits, T, H);
    }
    check_norm(comparison, residual, norm, T, x.read(comparison, "x"), bits);
    multiplied_with = Activations(T, H, bits);
    with_norm = logits.read(comparison, "logits with the norm");
    logits.poison();
  }
  subject.launch(args);
  wait_for_stream(subject.stream(), "checking route");

  const auto actual_logits = logits.read(comparison, "logits");
  if (!with_norm.empty()) compare_bits(comparison, "logits with the norm", E, with_norm, actual_logits);
  const Products expected = matrix.times(multiplied_with);
  for (int t = 0; t < T; ++t)
    for (int e = 0; e < E; ++e) {
      const size_t at = expected.at(t, e);
      const double b = bias[static_cast<size_t>(e)];
      comparison.near("logits", t, e, actual_logits[at], expected.sums[at] + b,
                      with_rest(expected.bounds[at], expected.sums[at], b));
    }
  if (!are_matched(T, K, size, args.normed.image_rows > 0))
    check_choices(comparison, c, actual_logits, groups, max_groups, size);
  comparison.equal("ticket", 0, 0, ticket.read(comparison, "ticket")[0], 0);
  const DeviceArray<uint16_t> natural(bits_of(multiplied_with));
  args.normed = bf16(natural);
  compare_with_mma(comparison, subject, "bits of logits", E, args, logits, actual_logits);
}

void check_unembed_case(Comparison& comparison, const Subject& subject, const Case& c) {
  const int num_rows = c.num_tokens, num_tokens = num_rows + 3, vocab = c.shape.vocab;
  std::vector<int> rows(static_cast<size_t>(num_rows));
  for (int i = 0; i < num_rows; ++i) rows[static_cast<size_t>(i)] = (7 * i + 1) % num_tokens;
  const TestResidual residual(c, num_tokens, {false, c.shape.experts_per_token});
  const TestNorm norm(c, residual);
  const TestMatrix matrix(subject.stream(), subject.row.weights, Origin::kQuantised, {vocab, c.shape.hidden},
                          c.values, c.seed + 40);
  const DeviceArray<int> device_rows(rows);
  const DeviceArray<float> logits(static_cast<size_t>(num_rows) * static_cast<size_t>(vocab));
  Activations x = norm.normed(rows);
  if (subject.row.pass.takes_norm) std::fill(x.slack.begin(), x.slack.end(), 0.0f);
  const DeviceArray<uint16_t> normed = given_norm(subject, x);
  check(cudaDeviceSynchronize(), "preparing a check");
  UnembedArgs args{norm.input(),    device_rows.data(), num_rows,
                   matrix.strips(), logits.data(),      given(subject, normed, num_rows)};
  const DeviceArray<unsigned> deals(std::vector<unsigned>(1 + kMostDeals));
  args.deals = deals.data();
  subject.launch(args);
  wait_for_stream(subject.stream(), "checking unembed");
  for (const unsigned number : deals.read(comparison, "deals")) comparison.equal("deals", 0, 0, number, 0);

  const auto actual = logits.read(comparison, "logits");
  const Products expected = matrix.times(x);
  for (int t = 0; t < num_rows; ++t)
    for (int row = 0; row < vocab; ++row) {
      const size_t at = expected.at(t, row);
      comparison.near("logits", t, row, actual[at], expected.sums[at],
                      with_rest(expected.bounds[at], expected.sums[at], 0));
    }
  const DeviceArray<uint16_t> natural(bits_of(x));
  args.normed = bf16(natural);
  compare_with_mma(comparison, subject, "bits of logits", vocab, args, logits, actual);
}

}  // namespace

KernelFinding check_rms_norm(const KernelRow& row, const Target& target, const CaseLimits& limits) {
  return check_cases(row, target, limits, check_rms_norm_case);
}
KernelFinding check_qkv(const KernelRow& row, const Target& target, const CaseLimits& limits) {
  return check_cases(row, target, limits, check_qkv_case);
}
KernelFinding check_project(const KernelRow& row, const Target& target, const CaseLimits& limits) {
  return check_cases(row, target, limits, check_project_case);
}
KernelFinding check_route(const KernelRow& row, const Target& target, const CaseLimits& limits) {
  return check_cases(row, target, limits, check_route_case);
}
KernelFinding check_unembed(const KernelRow& row, const Target& target, const CaseLimits& limits) {
  return check_cases(row, target, limits, check_unembed_case);
}

}  // namespace nibble::cuda::verify
