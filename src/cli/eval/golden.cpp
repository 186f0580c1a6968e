#include "cli/eval/golden.h"

#include <algorithm>
#include <span>

#include "cli/eval/logits.h"
#include "cli/measure/backend_sequence.h"

namespace nibble::cli {
namespace {

struct BackendAnswer {
  std::vector<float> logits;  // [positions of the prompt, V]
  std::vector<TokenId> greedy;
};

BackendAnswer ask(Backend& backend, const BackendOptions& room, const GoldenPrompt& prompt) {
  BackendSequence sequence(backend, room);
  BackendAnswer answer;
  TokenId next{};
  sequence.feed(prompt.ids, [&](int, std::span<const float> row) {
    answer.logits.insert(answer.logits.end(), row.begin(), row.end());
    next = likeliest(row);
  });
  while (answer.greedy.size() < prompt.greedy.size()) {
    answer.greedy.push_back(next);
    sequence.feed(std::span(&answer.greedy.back(), 1),
                  [&](int, std::span<const float> row) { next = likeliest(row); });
  }
  return answer;
}

}  // namespace

int longest(const GoldenSet& golden) {
  size_t most = 0;
  for (const GoldenPrompt& prompt : golden.prompts)
    most = std::max(most, prompt.ids.size() + prompt.greedy.size());
  return static_cast<int>(most);
}

std::vector<GoldenResult> compare_golden(Backend& backend, const BackendOptions& room,
                                         const GoldenReference& reference, const ReportProgress& report) {
  const auto& [golden, tolerance, answer_rounded] = reference;
  size_t num_tokens = 0;
  for (const GoldenPrompt& prompt : golden.prompts) num_tokens += prompt.ids.size();
  Meter meter(num_tokens, report);
  std::vector<GoldenResult> results;
  for (const GoldenPrompt& prompt : golden.prompts) {
    const BackendAnswer answer = ask(backend, room, prompt);
    GoldenResult result{prompt.name, static_cast<int>(prompt.ids.size()), {}, {}, false};
    result.difference = compare(prompt, {answer.logits, answer.greedy, {}}, tolerance);
    result.is_within = is_within(result.difference, tolerance);
    if (answer_rounded) {
      const GoldenTolerance both = tolerance_of_both_rounded(tolerance);
      result.from_rounded = compare_positions(answer_rounded(prompt), answer.logits, both);
      result.is_within &= is_within(*result.from_rounded, both);
    }
    results.push_back(std::move(result));
    meter.add(prompt.ids.size());
  }
  return results;
}

}  // namespace nibble::cli
