#include "cli/verify/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "setup/backends.h"
#include "setup/resolve.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;
using Result = Verdict::Result;

constexpr const char* kVerifyFooter{R"(
Each row is checked over edge shapes with random and adversarial values, outputs poisoned, against plain loops in double
precision. "worst" is the largest error over the bound that float32's roundings justify: 1 is the most that is right. A row
that crashes or hangs is reported as that, and the others are checked all the same. Exit code 1 where a row is not ok.

Covers the kernels of the CUDA backend; those of the CPU backend are checked by the unit tests.

Examples:
  nibble verify
  nibble verify --json > this-machine.json
  compute-sanitizer nibble verify --row qkv/BF16)"};

constexpr std::chrono::minutes kLimit{5};  // for one kernel; an H100 takes a second

struct VerifyOptions {
  std::optional<std::string> row;
  bool as_json{false};
};

// The backend that --backend names, else all whose kernels can be checked here.
std::vector<const BackendRow*> choose_backends(const Settings& settings) {
  std::vector<const BackendRow*> chosen;
  std::string missing;
  if (settings.backend) {
    const BackendRow& row = find_backend(*settings.backend);
    if (!row.checks)
      throw InputError(
          "--backend {}: nibble verify checks the kernels of cuda; those of {} are checked by the unit tests",
          row.name, row.name);
    chosen.push_back(&row);
  } else {
    for (const BackendRow& row : all_backends())
      if (row.checks) chosen.push_back(&row);
    if (chosen.empty())
      throw InputError(
          "this program was built without the CUDA backend, whose kernels nibble verify checks; the preset "
          "'cuda' builds it, with nvcc 13");
  }
  for (const BackendRow* row : chosen)
    if (const std::string reason = row->why_not(); !reason.empty())
      throw InputError("{}: {}", row->name, reason);
  return chosen;
}

Json finding_fields(const KernelFinding& finding) {
  return {{"worst", finding.worst}, {"at", finding.at}, {"num_compared", finding.num_compared}};
}

Json verdict_json(std::string_view backend, std::string_view kernel, const Verdict& verdict) {
  Json json{{"backend", backend}, {"kernel", kernel}, {"result", name(verdict.result)}};
  if (verdict.finding.num_compared > 0) json.update(finding_fields(verdict.finding));
  if (!verdict.reason.empty()) json["reason"] = verdict.reason;
  json["seconds"] = verdict.seconds;
  return json;
}

constexpr fmt::string_view kLine{"{:<24} {:<10} {:>10} {:>12} {:>8}\n"};

void print_header() { fmt::print(kLine, "kernel", "result", "worst", "numbers", "seconds"); }

void print_verdict(std::string_view kernel, const Verdict& verdict) {
  const bool has_finding = verdict.finding.num_compared > 0;
  fmt::print(kLine, kernel, name(verdict.result),
             has_finding ? fmt::format("{:.3g}", verdict.finding.worst) : "-",
             has_finding ? fmt::to_string(verdict.finding.num_compared) : "-",
             fmt::format("{:.1f}", verdict.seconds));
  if (verdict.result == Result::kWrong) fmt::print("  {}\n", verdict.finding.at);
  if (!verdict.reason.empty()) fmt::print("  {}\n", verdict.reason);
  std::fflush(stdout);  // the next one may take a while
}

// --row: checks one kernel in this process. The children run it, and so can a debugger or a sanitizer.
int verify_here(const std::vector<const BackendRow*>& backends, const VerifyOptions& options,
                const OwnOptions& own) {
  std::vector<std::string> names;
  for (const BackendRow* backend : backends)
    for (const KernelCheck& check : backend->checks(own)) {
      names.push_back(check.name);
      if (check.name != *options.row) continue;
      const Stopwatch watch;
      const KernelFinding finding = check.run();
      if (options.as_json) {
        fmt::print("{}\n", finding_json(check.name, finding));
      } else {
        print_header();
        print_verdict(check.name,
                      {finding.is_right() ? Result::kOk : Result::kWrong, finding, {}, watch.seconds()});
      }
      return finding.is_right() ? kDone : kCheckFailed;
    }
  throw InputError("--row '{}': the rows that this machine can run are {}", *options.row,
                   fmt::join(names, ", "));
}

// The flags of these settings that were given, for the children.
std::vector<std::string> device_flags(const Settings& settings) {
  std::vector<std::string> flags;
  for (const Setting& setting : setting_table()) {
    if (setting.group != SettingGroup::kDevice) continue;
    if (const std::string value = value_of(settings, setting); value != default_of(setting))
      flags.insert(flags.end(), {flag(setting), value});
  }
  return flags;
}

int verify_all(const std::vector<const BackendRow*>& backends, const VerifyOptions& options,
               const Settings& settings, const OwnOptions& own) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  Json rows = Json::array();
  bool all_ok = true;
  if (!options.as_json) print_header();
  for (const BackendRow* backend : backends)
    for (const KernelCheck& check : backend->checks(own)) {
      std::vector<std::string> child{program, "verify",   "--backend", std::string(backend->name),
                                     "--row", check.name, "--json"};
      const std::vector<std::string> flags = device_flags(settings);
      child.insert(child.end(), flags.begin(), flags.end());
      const Verdict verdict = verdict_of(run_child(child, kLimit));
      all_ok &= verdict.result == Result::kOk;
      if (options.as_json)
        rows.push_back(verdict_json(backend->name, check.name, verdict));
      else
        print_verdict(check.name, verdict);
    }
  if (options.as_json)
    fmt::print("{}\n", Json{{"kernels", rows}}.dump(2, ' ', false, Json::error_handler_t::replace));
  return all_ok ? kDone : kCheckFailed;
}

int verify(const VerifyOptions& options, const Settings& settings) {
  const std::vector<const BackendRow*> backends = choose_backends(settings);
  const OwnOptions own = resolve(settings).own;
  return options.row ? verify_here(backends, options, own) : verify_all(backends, options, settings, own);
}

// The last line of a program's stderr, without the program's name in front.
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

// `worst` is null where it is infinite, which JSON can't say.
std::string finding_json(std::string_view kernel, const KernelFinding& finding) {
  Json json{{"kernel", kernel}};
  json.update(finding_fields(finding));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Verdict verdict_of(const ChildResult& child) {
  Verdict verdict;
  verdict.seconds = child.seconds;
  if (child.end == ChildResult::End::kTimedOut) {
    verdict.result = Result::kTimedOut;
    verdict.reason = fmt::format("was ended after {:.0f} s", child.seconds);
    return verdict;
  }
  if (child.end == ChildResult::End::kSignalled) {
    verdict.result = Result::kCrashed;
    verdict.reason =
        fmt::format("{} (signal {}) {}", strsignal(child.code), child.code, last_line(child.err));
    return verdict;
  }
  const Json json = Json::parse(child.out, nullptr, /*allow_exceptions=*/false);
  const bool says =
      json.is_object() && json.contains("worst") && json.contains("at") && json.contains("num_compared");
  if ((child.code != kDone && child.code != kCheckFailed) || !says) {
    verdict.result = Result::kCrashed;
    verdict.reason = fmt::format("exit code {}: {}", child.code, last_line(child.err));
    return verdict;
  }
  verdict.finding = {
      json["worst"].is_number() ? json["worst"].get<double>() : std::numeric_limits<double>::infinity(),
      json["at"].get<std::string>(), json["num_compared"].get<size_t>()};
  verdict.result = child.code == kDone && verdict.finding.is_right() ? Result::kOk : Result::kWrong;
  return verdict;
}

Action define_verify(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<VerifyOptions>();
  command.add_option("--backend", settings.backend, "whose kernels [all that can be checked here]")
      ->type_name("NAME");
  command
      .add_option("--row", options->row, "this row alone, and in this process: for a debugger or a sanitizer")
      ->type_name("NAME");
  add_settings(command, settings, {SettingGroup::kDevice});
  command.add_flag("--json", options->as_json, "one JSON object; where an error has no bound, worst is null");
  command.footer(kVerifyFooter);
  return [options, &settings] { return verify(*options, settings); };
}

}  // namespace nibble::cli
