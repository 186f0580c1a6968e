#include "cli/eval/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

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

std::string of_text(int part, int whole) { return fmt::format("{} of {}", part, whole); }

std::string greedy_text(const GoldenDifference& difference) {
  if (!difference.greedy_at) return "same";
  return fmt::format("differs at {} (gap {:.1e})", *difference.greedy_at, difference.greedy_gap);
}

// Formats an error. An error of exactly 0 means that the prompt has no positions of this kind: shown as "-".
std::string error_text(double error) { return error == 0 ? "-" : fmt::format("{:.2e}", error); }

Json difference_json(const GoldenDifference& difference) {
  return {{"relative_l2", difference.relative_l2},
          {"near_tie_relative_l2", difference.tied_l2},
          {"max_logit", difference.max_logit},
          {"num_top_compared", difference.num_top_compared},
          {"num_top_wrong", difference.num_top_wrong},
          {"num_positions_wrong", difference.num_positions_wrong},
          {"most_positions_wrong", difference.most_positions_wrong}};
}

Json difference_json(const PositionsDifference& difference) {
  return {{"relative_l2", difference.relative_l2},
          {"max_logit", difference.max_logit},
          {"num_other_experts", difference.num_other_experts},
          {"most_other_experts", difference.most_other_experts},
          {"num_top_compared", difference.num_top_compared},
          {"num_top_wrong", difference.num_top_wrong}};
}

void print_rounded_table(const std::vector<GoldenResult>& results, const GoldenTolerance& tolerance) {
  fmt::print("\ncompared with the reference backend, which rounds in the same places, at every position:\n");
  fmt::print("{:28} {:>6} {:>12} {:>14} {:>10} {:>18}\n", "prompt", "tokens", "logits (L2)", "other experts",
             "max diff", "top 5 wrong");
  int num_tokens = 0, num_compared = 0, num_wrong = 0;
  for (const GoldenResult& result : results) {
    const PositionsDifference& difference = *result.from_rounded;
    fmt::print("{:28} {:6} {:12.2e} {:>14} {:10.2e} {:>18}\n", result.name, result.num_tokens,
               difference.relative_l2,
               fmt::format("{} (<= {})", difference.num_other_experts, difference.most_other_experts),
               difference.max_logit, of_text(difference.num_top_wrong, difference.num_top_compared));
    num_tokens += result.num_tokens;
    num_compared += difference.num_top_compared;
    num_wrong += difference.num_top_wrong;
  }
  const GoldenTolerance both = tolerance_of_both_rounded(tolerance);
  fmt::print(
      "top 5: {} wrong of {} places compared, of {}; tolerance: logits {:.1e} relative L2, except where the "
      "router's margin is at most {:.0e} and another expert was chosen, up to the expected number; top 5 if "
      "neighbours differ by more than 4 standard deviations of the error at their position\n",
      num_wrong, num_compared, num_tokens * kGoldenTop, both.relative_l2, both.router_margin);
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

void print_golden_table(const std::vector<GoldenResult>& results, const GoldenTolerance& tolerance,
                        std::string_view backend) {
  fmt::print("{:28} {:>6} {:>12} {:>12} {:>10} {:>18}  {:16}\n", "prompt", "tokens", "logits (L2)",
             "near ties", "max diff", "top 5 wrong", "greedy");
  for (const GoldenResult& result : results) {
    const GoldenDifference& difference = result.difference;
    fmt::print("{:28} {:6} {:>12} {:>12} {:10.2e} {:>18}  {:16}{}\n", result.name, result.num_tokens,
               error_text(difference.relative_l2), error_text(difference.tied_l2), difference.max_logit,
               of_text(difference.num_top_wrong, difference.num_top_compared), greedy_text(difference),
               result.is_within ? "" : "  OUTSIDE");
  }
  fmt::print(
      "backend {}; tolerance: logits {:.1e} relative L2, {:.1e} at near ties (router margin at most {:.0e}); "
      "top 5 at margins over {:.0e} if neighbours differ by more than {:.1e}, after a near tie {:.1e}; "
      "wrong at as many positions as are expected to have other experts; greedy if the gap is over {:.1e}\n",
      backend, tolerance.relative_l2, tolerance.tied_l2, tolerance.tied_margin, tolerance.router_margin,
      tolerance.top_gap, tolerance.top_gap_after_tie, tolerance.greedy_gap);
  if (!results.empty() && results.front().from_rounded) print_rounded_table(results, tolerance);
}

Json golden_json(const std::vector<GoldenResult>& results, const GoldenTolerance& tolerance,
                 std::string_view backend) {
  Json rows = Json::array();
  for (const GoldenResult& result : results) {
    Json row{{"name", result.name}, {"num_tokens", result.num_tokens}};
    row.update(difference_json(result.difference));
    row["greedy_differs_at"] = result.difference.greedy_at ? Json(*result.difference.greedy_at) : Json();
    if (result.from_rounded) row["from_rounded_reference"] = difference_json(*result.from_rounded);
    row["is_within"] = result.is_within;
    rows.push_back(std::move(row));
  }
  return {{"backend", backend},
          {"tolerance",
           {{"relative_l2", tolerance.relative_l2},
            {"near_tie_relative_l2", tolerance.tied_l2},
            {"near_tie_margin", tolerance.tied_margin},
            {"router_margin", tolerance.router_margin},
            {"top_gap", tolerance.top_gap},
            {"top_gap_after_tie", tolerance.top_gap_after_tie},
            {"margin_error", tolerance.margin_error},
            {"greedy_gap", tolerance.greedy_gap}}},
          {"prompts", rows}};
}

}  // namespace nibble::cli
