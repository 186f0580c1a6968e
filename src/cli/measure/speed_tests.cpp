#include "cli/measure/speed_tests.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/measure/backend_sequence.h"
#include "core/errors/error.h"
#include "core/numbers/random.h"
#include "core/program/log.h"
#include "core/system/clock.h"
#include "kv/page_counts.h"
#include "setup/plan/capacity.h"

namespace nibble::cli {
namespace {

constexpr uint64_t kSeed{1};

Cost cost_of(const TestStep& step, int depth, const Config& config, const StorageFormats& formats) {
  Cost sum;
  for (const OperationCost& row :
       step_costs(config, formats, step.num_tokens, depth + step.offset + step.num_tokens))
    if (step.wants_next || row.operation != Operation::kUnembed) sum += row.cost;
  return sum;
}

double seconds_of(BackendSequence& sequence, std::span<const TestStep> steps,
                  std::span<const TokenId> tokens) {
  const Stopwatch watch;
  for (const TestStep& step : steps)
    sequence.run_repeatable_step(
        tokens.subspan(static_cast<size_t>(step.offset), static_cast<size_t>(step.num_tokens)), step.offset,
        step.wants_next);
  return watch.seconds();
}

}  // namespace

std::vector<TokenId> tokens_at(int first_position, int num_tokens, int vocab) {
  std::vector<TokenId> tokens;
  for (int position = first_position; position < first_position + num_tokens; ++position)
    tokens.push_back(static_cast<TokenId>(random_bits(kSeed, static_cast<uint64_t>(position)) %
                                          static_cast<uint64_t>(vocab)));
  return tokens;
}

std::vector<TestStep> steps_of(const BenchTest& test, int max_batch_tokens) {
  const bool is_decode = test.kind == BenchKind::kDecode;
  const int chunk = is_decode ? 1 : max_batch_tokens;
  std::vector<TestStep> steps;
  for (int offset = 0; offset < test.num_tokens; offset += chunk) {
    const int num_tokens = std::min(chunk, test.num_tokens - offset);
    steps.push_back({offset, num_tokens, is_decode || offset + num_tokens == test.num_tokens});
  }
  return steps;
}

std::string name(const BenchTest& test) {
  const std::string what =
      fmt::format("{}{}", test.kind == BenchKind::kPrefill ? "pp" : "tg", test.num_tokens);
  return test.depth == 0 ? what : fmt::format("{} @ d{}", what, test.depth);
}

std::vector<BenchTest> list_tests(std::span<const int> prompt_lengths, std::span<const int> output_lengths,
                                  std::vector<int> depths) {
  std::ranges::sort(depths);
  depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
  std::vector<BenchTest> tests;
  for (const int depth : depths) {
    for (const int length : prompt_lengths)
      if (length > 0) tests.push_back({BenchKind::kPrefill, length, depth});
    for (const int length : output_lengths)
      if (length > 0) tests.push_back({BenchKind::kDecode, length, depth});
  }
  return tests;
}

BackendOptions room_for(std::span<const BenchTest> tests, const Config& config, const ResolvedSettings& setup,
                        int num_sequences) {
  const int context = setup.context ? context_of(config, setup) : config.max_context;
  int num_positions = 0, num_tokens = 0;
  for (const BenchTest& test : tests) {
    if (test.num_tokens > context - test.depth)
      throw InputError("{} needs a context of {} tokens; the maximum is {}", name(test),
                       int64_t{test.depth} + test.num_tokens, context);
    num_positions = std::max(num_positions, test.depth + test.num_tokens);
    num_tokens = std::max(num_tokens, test.num_tokens);
  }
  BackendOptions room = backend_options(config, setup, {num_positions, num_sequences});
  // Steps are repeated, so sliding layers must keep all timed positions too.
  const int num_full = num_pages_for(num_positions);
  room.num_pages =
      std::max(room.num_pages,
               num_sequences * (num_full + std::min(num_full, max_sliding_pages(config.window, num_tokens))));
  return room;
}

void run_tests(Backend& backend, const BackendOptions& room, const SpeedTests& speed,
               const std::function<void(const BenchResult&)>& on_result) {
  const Config& config = backend.config();
  BackendSequence sequence(backend, room);
  for (const BenchTest& test : speed.tests) {
    if (sequence.length() < test.depth)
      log::debug("filling the KV cache from {} to {} tokens", sequence.length(), test.depth);
    sequence.feed(tokens_at(sequence.length(), test.depth - sequence.length(), config.vocab));
    sequence.reserve(test.num_tokens);

    const std::vector<TestStep> steps = steps_of(test, room.max_batch_tokens);
    const std::vector<TokenId> tokens = tokens_at(test.depth, test.num_tokens, config.vocab);
    BenchResult result{test, {}, static_cast<int>(steps.size()), 0};
    for (const TestStep& step : steps) {
      const Cost cost = cost_of(step, test.depth, config, speed.formats);
      result.bytes_per_step += static_cast<double>(cost.bytes_touched()) / result.num_steps;
      result.flops_per_step += static_cast<double>(cost.flops) / result.num_steps;
    }

    for (int warmup = 0; warmup < speed.num_warmups; ++warmup) seconds_of(sequence, steps, tokens);
    for (int repetition = 0; repetition < speed.num_repetitions; ++repetition)
      result.tokens_per_second.push_back(test.num_tokens / seconds_of(sequence, steps, tokens));
    on_result(result);
  }
}

}  // namespace nibble::cli
