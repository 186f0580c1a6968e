// embed and argmax: what a step begins and ends with.
#include <cmath>
#include <limits>

#include "backend/cuda/kernels.h"
#include "backend/cuda/verify/checks.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/shapes.h"
#include "core/random.h"

namespace nibble::cuda::verify {
namespace {

void check_embed_case(Comparison& comparison, Stream stream, const Case& c) {
  const int T = c.num_tokens;
  const auto H = static_cast<size_t>(c.shape.hidden), vocab = static_cast<size_t>(c.shape.vocab);
  const auto embedding = random_bf16(c.values, c.seed, vocab * H);
  std::vector<RowInput> rows;
  for (size_t t = 0; t < static_cast<size_t>(T); ++t)  // the last row first
    rows.push_back({static_cast<int32_t>(t == 0 ? vocab - 1 : random_bits(c.seed + 1, t) % vocab), 0, 0, 0});
  const DeviceArray<uint16_t> device_embedding(embedding);
  const DeviceArray<RowInput> device_rows(rows);
  const DeviceArray<float> x(static_cast<size_t>(T) * H);
  const DeviceArray<uint32_t> step(std::vector<uint32_t>{41});
  check(cudaDeviceSynchronize(), "preparing a check");
  embed(stream, T,
        {{device_rows.data(), nullptr}, bf16(device_embedding), c.shape.hidden, x.data(), step.data()});
  check(cudaStreamSynchronize(stream), "checking embed");

  comparison.equal("step", 0, 0, step.read(comparison, "step")[0], 42);
  const auto actual = x.read(comparison, "x");
  for (size_t t = 0; t < rows.size(); ++t)
    for (size_t i = 0; i < H; ++i)
      comparison.equal("x", static_cast<ptrdiff_t>(t), static_cast<ptrdiff_t>(i), actual[t * H + i],
                       float_of(embedding[static_cast<size_t>(rows[t].token) * H + i]));
}

// NaN and -infinity are never chosen, ties go to the lower token.
int likeliest(const float* logits, size_t vocab) {
  int best = -1;
  for (size_t i = 0; i < vocab; ++i)
    if (logits[i] > -INFINITY && (best < 0 || logits[i] > logits[best])) best = static_cast<int>(i);
  return best;
}

// Rows with what a model should not say mixed in: all NaN, all -infinity, infinity, a tie over the whole row, NaN beside numbers.
void disturb(std::vector<float>& logits, size_t vocab) {
  constexpr float kNan{std::numeric_limits<float>::quiet_NaN()};
  const size_t num_rows = logits.size() / vocab;
  for (size_t row = 0; row < num_rows; ++row) {
    float* of_row = logits.data() + row * vocab;
    for (size_t i = 0; i < vocab; ++i) {
      if (row % 8 == 1) of_row[i] = kNan;
      if (row % 8 == 2) of_row[i] = -INFINITY;
      if (row % 8 == 3 && i % 3 == 0) of_row[i] = kNan;
      if (row % 8 == 4) of_row[i] = i % 2 ? 0.0f : -0.0f;
      if (row % 8 == 5) of_row[i] = -std::abs(of_row[i]) - 1;
    }
    if (row % 8 == 6) of_row[vocab - 1] = of_row[vocab / 2] = INFINITY;
    if (row % 8 == 7) of_row[vocab - 1] = 1e30f;
  }
}

void check_argmax_case(Comparison& comparison, Stream stream, const Case& c) {
  const auto rows = static_cast<size_t>(c.num_tokens), vocab = static_cast<size_t>(c.shape.vocab);
  auto logits = random_floats(c.values, c.seed, rows * vocab);
  disturb(logits, vocab);
  const DeviceArray<float> device_logits(logits), best(rows * kArgmaxBlocks);
  const DeviceArray<int> best_token(rows * kArgmaxBlocks), tokens(rows);
  const DeviceArray<unsigned> tickets(std::vector<unsigned>(rows, 0));
  check(cudaDeviceSynchronize(), "preparing a check");
  argmax(
      stream, c.num_tokens,
      {device_logits.data(), c.shape.vocab, best.data(), best_token.data(), tickets.data(), tokens.data()});
  check(cudaStreamSynchronize(stream), "checking argmax");

  const auto actual = tokens.read(comparison, "token");
  const auto left = tickets.read(comparison, "ticket");
  for (size_t row = 0; row < rows; ++row) {
    comparison.equal("token", static_cast<ptrdiff_t>(row), 0, actual[row],
                     likeliest(logits.data() + row * vocab, vocab));
    comparison.equal("ticket", static_cast<ptrdiff_t>(row), 0, left[row], 0);
  }
}

template <typename CheckCase>
KernelFinding check_cases(const KernelRow& row, const CheckCase& check_case) {
  prepare_embed();
  Comparison comparison;
  const OwnedStream stream;
  for_each_case(row,
                [&](const Case& c) { comparison.at(c.text(), [&] { check_case(comparison, stream, c); }); });
  return comparison.finding();
}

}  // namespace

KernelFinding check_embed(const KernelRow& row) { return check_cases(row, check_embed_case); }
KernelFinding check_argmax(const KernelRow& row) { return check_cases(row, check_argmax_case); }

}  // namespace nibble::cuda::verify
