#include "cli/verify/probe_verdict.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "cli/verify/verdict.h"

namespace nibble::cli {
namespace {

std::optional<ProbeFinding::Result> result_named(const Json& json) {
  if (!json.is_string()) return std::nullopt;
  const auto found = std::ranges::find(kProbeResults, json.get_ref<const std::string&>());
  if (found == std::end(kProbeResults)) return std::nullopt;
  return static_cast<ProbeFinding::Result>(found - std::begin(kProbeResults));
}

// Parses the output that probe_json() made in a probe's process. Returns nullopt for any other text.
std::optional<ProbeFinding> finding_in(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("result") || !json.contains("found") || !json.contains("figures"))
    return std::nullopt;
  const auto result = result_named(json["result"]);
  if (!result || !json["found"].is_string() || !json["figures"].is_object()) return std::nullopt;
  ProbeFinding finding{*result, json["found"].get<std::string>()};
  for (const auto& [name, value] : json["figures"].items())
    if (value.is_number()) finding.figures.push_back({name, value.get<double>()});
  return finding;
}

}  // namespace

Json probe_json(std::string_view probe, const ProbeFinding& finding) {
  Json figures = Json::object();
  for (const ProbeFinding::Figure& figure : finding.figures)
    figures[figure.name] = std::isfinite(figure.value) ? Json(figure.value) : Json();
  return {{"probe", probe}, {"result", name(finding.result)}, {"found", finding.found}, {"figures", figures}};
}

ProbeVerdict probe_verdict_of(const ChildResult& child) {
  ProbeVerdict verdict;
  verdict.seconds = child.seconds;
  const auto finding = finding_in(child.out);
  if (const auto failure = failure_of(child, finding.has_value())) {
    verdict.result = name(failure->result);
    verdict.finding.found = failure->reason;
    return verdict;
  }
  verdict.finding = *finding;
  verdict.result = name(finding->result);
  return verdict;
}

Json probe_verdict_json(std::string_view probe, const ProbeVerdict& verdict) {
  Json json = probe_json(probe, verdict.finding);
  json["result"] = verdict.result;
  json["seconds"] = verdict.seconds;
  return json;
}

}  // namespace nibble::cli
