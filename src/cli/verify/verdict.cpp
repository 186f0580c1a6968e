#include "cli/verify/verdict.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "cli/command.h"
#include "core/text/json_text.h"

namespace nibble::cli {
namespace {

using Result = Verdict::Result;

Json finding_fields(const KernelFinding& finding) {
  return {{"worst", finding.worst}, {"at", finding.at}, {"num_compared", finding.num_compared}};
}

// Returns the last line of a program's stderr, without the leading "nibble: ".
std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::string_view line = text.substr(text.rfind('\n') + 1);
  if (line.starts_with("nibble: ")) line.remove_prefix(8);
  return std::string(line);
}

}  // namespace

std::string_view name(Verdict::Result result) {
  constexpr std::string_view kNames[]{"ok", "wrong", "crashed", "timed out"};
  return kNames[static_cast<int>(result)];
}

// JSON has no infinity: an infinite KernelFinding::worst becomes null.
std::string finding_json(std::string_view kernel, const KernelFinding& finding) {
  Json json{{"kernel", kernel}};
  json.update(finding_fields(finding));
  return json_text(json);
}

std::optional<Verdict> failure_of(const ChildResult& child, bool has_answered) {
  const auto failed = [&](Result result, std::string reason) {
    return Verdict{result, {}, std::move(reason), child.seconds};
  };
  if (child.end == ChildResult::End::kTimedOut)
    return failed(Result::kTimedOut, fmt::format("killed after {:.0f} s", child.seconds));
  if (child.end == ChildResult::End::kSignalled)
    return failed(Result::kCrashed,
                  fmt::format("{} (signal {}) {}", strsignal(child.code), child.code, last_line(child.err)));
  if ((child.code != kDone && child.code != kCheckFailed) || !has_answered)
    return failed(Result::kCrashed, fmt::format("exit code {}: {}", child.code, last_line(child.err)));
  return std::nullopt;
}

Verdict verdict_of(const ChildResult& child) {
  const Json json = Json::parse(child.out, nullptr, /*allow_exceptions=*/false);
  const bool has_answered =
      json.is_object() && json.contains("worst") && json.contains("at") && json.contains("num_compared");
  if (auto failure = failure_of(child, has_answered)) return *failure;
  Verdict verdict;
  verdict.seconds = child.seconds;
  verdict.finding = {
      json["worst"].is_number() ? json["worst"].get<double>() : std::numeric_limits<double>::infinity(),
      json["at"].get<std::string>(), json["num_compared"].get<size_t>()};
  verdict.result = child.code == kDone && verdict.finding.is_right() ? Result::kOk : Result::kWrong;
  return verdict;
}

Json verdict_json(std::string_view backend, std::string_view kernel, const Verdict& verdict) {
  Json json{{"backend", backend}, {"kernel", kernel}, {"result", name(verdict.result)}};
  if (verdict.finding.num_compared > 0) json.update(finding_fields(verdict.finding));
  if (!verdict.reason.empty()) json["reason"] = verdict.reason;
  json["seconds"] = verdict.seconds;
  return json;
}

}  // namespace nibble::cli
