#include "cli/verify/golden_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "cli/command.h"
#include "core/text/json.h"

namespace nibble::cli {
namespace {

bool has_prompts(const Json& json) {
  return json.is_object() && json.contains("tolerance") && json.contains("prompts") &&
         json["prompts"].is_array();
}

// JSON has no infinity and no NaN: records contain null instead.
double number(const Json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::infinity();
}

// Returns which result is outside its tolerance. `worst`: error of the logits, divided by the tolerance.
std::string reason_of(const Json& prompt, double worst) {
  const auto name = prompt.at("name").get<std::string>();
  if (worst > 1) return fmt::format("prompt {}: logits", name);
  return fmt::format("prompt {}: {} of {} entries of the top 5 differ; first greedy token that differs: {}",
                     name, prompt.at("num_top_wrong").get<int>(), prompt.at("num_top_compared").get<int>(),
                     prompt.at("greedy_differs_at").dump());
}

}  // namespace

std::filesystem::path golden_of(const std::filesystem::path& model_folder) {
  if (model_folder.empty()) return {};
  const std::filesystem::path file = model_folder / "golden.json";
  std::error_code error;
  return std::filesystem::is_regular_file(file, error) ? file : std::filesystem::path();
}

Verdict golden_verdict_of(const ChildResult& child) {
  const Json json = Json::parse(child.out, nullptr, /*allow_exceptions=*/false);
  if (auto failure = failure_of(child, has_prompts(json))) return *failure;
  Verdict verdict;
  verdict.seconds = child.seconds;
  bool all_within = true;
  for (const Json& prompt : json["prompts"]) {
    double worst = 0;
    for (const char* const error : {"relative_l2", "near_tie_relative_l2"})
      worst = std::max(worst, number(prompt.at(error)) / number(json["tolerance"].at(error)));
    verdict.finding.worst = std::max(verdict.finding.worst, worst);
    ++verdict.finding.num_compared;
    if (prompt.at("is_within").get<bool>()) continue;
    if (all_within) verdict.finding.at = reason_of(prompt, worst);
    all_within = false;
  }
  const bool is_right = child.code == kDone && all_within && verdict.finding.num_compared > 0;
  verdict.result = is_right ? Verdict::Result::kOk : Verdict::Result::kWrong;
  return verdict;
}

}  // namespace nibble::cli
