#include "cli/eval/golden.h"

#include <algorithm>
#include <span>

#include "cli/eval/logits.h"
#include "cli/measure/backend_sequence.h"

namespace nibble::cli {
namespace {

GoldenDifference compare_prompt(Backend& backend, const BackendOptions& room, const GoldenPrompt& prompt,
                                const GoldenTolerance& tolerance) {
  BackendSequence sequence(backend, room);
  std::vector<float> logits;
  TokenId next{};
  sequence.feed(prompt.ids, [&](int, std::span<const float> row) {
    logits.insert(logits.end(), row.begin(), row.end());
    next = likeliest(row);
  });
  std::vector<TokenId> greedy;
  while (greedy.size() < prompt.greedy.size()) {
    greedy.push_back(next);
    sequence.feed(std::span(&greedy.back(), 1),
                  [&](int, std::span<const float> row) { next = likeliest(row); });
  }
  return compare(prompt, {logits, greedy, {}}, tolerance);
}

}  // namespace

int longest(const GoldenSet& golden) {
  size_t most = 0;
  for (const GoldenPrompt& prompt : golden.prompts)
    most = std::max(most, prompt.ids.size() + prompt.greedy.size());
  return static_cast<int>(most);
}

std::vector<GoldenResult> compare_golden(Backend& backend, const BackendOptions& room,
                                         const GoldenSet& golden, const GoldenTolerance& tolerance,
                                         std::optional<int> limit) {
  std::vector<GoldenResult> results;
  for (const GoldenPrompt& prompt : golden.prompts) {
    if (limit && results.size() == static_cast<size_t>(*limit)) break;
    const GoldenDifference difference = compare_prompt(backend, room, prompt, tolerance);
    results.push_back(
        {prompt.name, static_cast<int>(prompt.ids.size()), difference, is_within(difference, tolerance)});
  }
  return results;
}

}  // namespace nibble::cli
