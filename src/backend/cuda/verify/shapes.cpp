#include "backend/cuda/verify/shapes.h"

#include <fmt/format.h>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/prepare.h"

namespace nibble::cuda::verify {
namespace {

// Shapes around the kernels' granularities: tiles of 64 columns, segments of up to 5 tiles, MXFP4 blocks of
// 32 columns, strips of 16 rows, passes of 8 tokens (64 for more than 16 tokens). The list has partial tiles
// and strips, token counts off by one, and the sizes of gpt-oss. 33,000 rows of 45 tiles have more sums than
// a CTA holds. 65 tokens with 8 experts each have more pairs than the CTA that groups them has threads.
std::vector<Shape> shapes() {
  return {{32, 1, 1, 1, 1, 32, 1, {1, 2, 3}},
          {96, 2, 1, 4, 4, 64, 100, {1, 2, 7, 8, 9, 15, 16, 17, 511, 512, kWideTokens}},
          {160, 6, 3, 8, 3, 224, 257, {1, 2, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129}},
          {544, 8, 1, 33, 5, 96, 1000, {1, 2, 4, 5, 6, 9, 17, 24}},
          {320, 16, 4, 128, 8, 160, 3333, {1, 2, 3, 64, 65, 255, 256}},
          {2880, 64, 8, 5, 4, 2880, 33000, {1, 2, 4, 8, 9, 16, 17, 65}},
          {4096, 16, 2, 3, 1, 4096, 513, {1, 2, 7, 16, 33}}};
}

// Returns whether the kernel supports the shape on `target`. Models of other shapes are rejected at load
// (limits.h).
bool fits(const KernelRow& row, const Target& target, const Shape& shape) {
  Config config;
  config.hidden = shape.hidden;
  config.intermediate = shape.intermediate;
  config.num_heads = shape.num_heads;
  config.num_kv_heads = shape.num_kv_heads;
  config.head_dim = kHeadDim;
  config.num_experts = shape.num_experts;
  config.experts_per_token = shape.experts_per_token;
  if (row.shared_bytes && row.shared_bytes(config, row.weights) > usable_bytes(target.budget)) return false;
  return !row.why_not || row.why_not(config, target).empty();
}

}  // namespace

std::string Case::text() const {
  return fmt::format(
      "hidden {}, {}/{} heads, {} of {} experts of width {}, vocabulary {}, {} tokens, {} values",
      shape.hidden, shape.num_heads, shape.num_kv_heads, shape.experts_per_token, shape.num_experts,
      shape.intermediate, shape.vocab, num_tokens, name(values));
}

IndexRange own_experts(const Case& c) {
  const int E = c.shape.num_experts;
  return c.seed / 100 % 2 ? IndexRange{0, E} : IndexRange{E / 3, (E + 1) / 2};
}

KernelFinding check_cases(const KernelRow& row, const Target& target, const CaseLimits& limits,
                          CheckCase* check_case) {
  prepare_kernels();
  Comparison comparison;
  const OwnedStream stream;
  const Subject subject{row, {stream, target}};
  uint64_t seed = 0;
  const auto run = [&](const Shape& shape, int tokens, Values values) {
    if (tokens < row.from_rows || tokens > row.to_rows || tokens == kAnyRows || !fits(row, target, shape) ||
        tokens > limits.num_tokens || shape.hidden > limits.hidden)
      return;
    const Case c{shape, tokens, values, seed += 100};
    comparison.at(c.text(), [&] { check_case(comparison, subject, c); });
  };
  for (const Shape& shape : shapes())
    for (const int tokens : shape.tokens) run(shape, tokens, Values::kTypical);
  for (const int tokens : {row.from_rows, row.from_rows + 1, 19, row.to_rows})
    for (const Values values : kAllValues) run(shapes()[2], tokens, values);
  return comparison.finding();
}

}  // namespace nibble::cuda::verify
