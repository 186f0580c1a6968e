#include "cli/verify/golden_check.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cli/command.h"
#include "core/json.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;

bool has_prompts(const Json& json) {
  return json.is_object() && json.contains("tolerance") && json.contains("prompts") &&
         json["prompts"].is_array();
}

// JSON has no infinity and no NaN: they are null.
double number(const Json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::infinity();
}

}  // namespace

std::filesystem::path golden_of(const std::filesystem::path& model_folder) {
  if (model_folder.empty()) return {};
  const std::filesystem::path file = model_folder / "golden.json";
  std::error_code error;
  return std::filesystem::is_regular_file(file, error) ? file : std::filesystem::path();
}

Verdict golden_verdict_of(const ChildResult& child) {
  Verdict verdict;
  verdict.seconds = child.seconds;
  const Json json = Json::parse(child.out, nullptr, /*allow_exceptions=*/false);
  if (auto failure = failure_of(child, has_prompts(json))) {
    verdict.result = failure->result;
    verdict.reason = std::move(failure->reason);
    return verdict;
  }
  const auto tolerance = number(json["tolerance"].at("relative_l2"));
  bool all_within = true;
  for (const Json& prompt : json["prompts"]) {
    verdict.finding.worst = std::max(verdict.finding.worst, number(prompt.at("relative_l2")) / tolerance);
    ++verdict.finding.num_compared;
    if (prompt.at("is_within").get<bool>()) continue;
    if (all_within) verdict.finding.at = "prompt " + prompt.at("name").get<std::string>();
    all_within = false;
  }
  const bool is_right = child.code == kDone && all_within && verdict.finding.num_compared > 0;
  verdict.result = is_right ? Verdict::Result::kOk : Verdict::Result::kWrong;
  return verdict;
}

}  // namespace nibble::cli
