// nibble verify: probes this machine's device and checks all rows of its kernel tables in separate processes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/verify/child_process.h"
#include "cli/verify/golden_check.h"
#include "cli/verify/probe_verdict.h"
#include "cli/verify/report.h"
#include "cli/verify/verdict.h"
#include "core/errors/error.h"
#include "core/files/new_file.h"
#include "core/program/log.h"
#include "core/system/clock.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "setup/backend/backends.h"
#include "setup/model/model_source.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

using Result = Verdict::Result;

constexpr const char* kVerifyFooter{R"(
First the device is probed: its memory, its rates, and whether its instructions do what the kernels assume. "twin": the
device does not have an instruction, and its software version was tested; "other": the device does not behave as the kernels
assume. Then each row of the kernel table is checked over edge shapes with random and adversarial values and poisoned
outputs, against plain loops in double precision. "worst" is the largest error relative to the bound that the roundings of
float32 justify; it must be at most 1. A row that crashes or hangs is reported, and the others are still checked. The exit
code is 1 if a row is not ok, or the result of a probe is "other".

--model MODEL then runs the model, the bundled one for example, and compares its logits with those of another implementation,
as `nibble eval MODEL --golden` does. Packages have golden data for tiny.

The report of a complete run is kept in ~/.local/state/nibble, or $XDG_STATE_HOME/nibble.

Covers the kernels of the CUDA backend; those of the CPU backend are checked by the unit tests.

Examples:
  nibble verify
  nibble verify --model tiny --json this-machine.json
  compute-sanitizer nibble verify --row qkv/BF16
  nibble verify --probe rates)"};

constexpr std::chrono::minutes kLimit{5};         // timeout of a check (1 s on an H100)
constexpr std::chrono::minutes kGoldenLimit{30};  // timeout of the golden run, which loads a model
constexpr std::chrono::minutes kProbeLimit{1};  // timeout of a probe, which usually takes less than a second

struct VerifyOptions {
  std::optional<std::string> row, probe, model, golden;
  std::optional<std::string> json_file;  // set but empty: stdout
  bool prints_json() const { return json_file && json_file->empty(); }
};

// Returns the backend of --backend; without the flag, all backends whose kernels can be checked.
std::vector<const BackendRow*> choose_backends(const Settings& settings) {
  std::vector<const BackendRow*> chosen;
  std::string missing;
  if (settings.backend) {
    const BackendRow& row = find_backend(*settings.backend);
    if (!row.verification)
      throw InputError(
          "--backend {}: nibble verify checks only the kernels of cuda; the unit tests check those of {}",
          row.name, row.name);
    chosen.push_back(&row);
  } else {
    for (const BackendRow& row : all_backends())
      if (row.verification) chosen.push_back(&row);
    if (chosen.empty())
      throw InputError(
          "nibble verify checks the kernels of the CUDA backend, and this program was built without it; "
          "build it with the preset 'cuda' and nvcc 13");
  }
  for (const BackendRow* row : chosen)
    if (const std::string reason = row->making.why_not(); !reason.empty())
      throw InputError("{}: {}", row->name, reason);
  return chosen;
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
  std::fflush(stdout);  // shows the line now: the next check may take a while
}

// Implements --row, for child processes and debuggers: checks one kernel in this process.
int verify_here(const std::vector<const BackendRow*>& backends, const VerifyOptions& options,
                const OwnOptions& own) {
  std::vector<std::string> names;
  for (const BackendRow* backend : backends)
    for (const KernelCheck& check : backend->verification->checks(own)) {
      names.push_back(check.name);
      if (check.name != *options.row) continue;
      const Stopwatch watch;
      const KernelFinding finding = check.run();
      if (options.prints_json()) {
        fmt::print("{}\n", finding_json(check.name, finding));
      } else {
        print_header();
        print_verdict(check.name,
                      {finding.is_right() ? Result::kOk : Result::kWrong, finding, {}, watch.seconds()});
      }
      return finding.is_right() ? kDone : kCheckFailed;
    }
  throw InputError("--row '{}': expected a row that this machine can run, one of {}", *options.row,
                   fmt::join(names, ", "));
}

// Returns the flags of a group whose values differ from the defaults: the children need them.
std::vector<std::string> flags_of(const Settings& settings, SettingGroup group) {
  std::vector<std::string> flags;
  for (const Setting& setting : setting_table()) {
    if (setting.group != group) continue;
    if (const std::string value = value_of(settings, setting); value != default_of(setting))
      flags.insert(flags.end(), {flag(setting), value});
  }
  return flags;
}

constexpr fmt::string_view kProbeLine{"{:<24} {:<10} {}\n"};

void print_probe_header() { fmt::print(kProbeLine, "probe", "result", "found"); }

void print_probe(std::string_view probe, const ProbeVerdict& verdict) {
  fmt::print(kProbeLine, probe, verdict.result, verdict.finding.found);
  std::fflush(stdout);
}

// Implements --probe: runs one probe in this process.
int probe_here(const std::vector<const BackendRow*>& backends, const VerifyOptions& options) {
  std::vector<std::string_view> names;
  for (const BackendRow* backend : backends)
    for (const MachineProbe& probe : backend->verification->probes()) {
      names.push_back(probe.name);
      if (probe.name != *options.probe) continue;
      ProbeVerdict verdict{.finding = probe.run(), .result = {}};
      verdict.result = name(verdict.finding.result);
      if (options.prints_json()) {
        fmt::print("{}\n", json_text(probe_json(probe.name, verdict.finding)));
      } else {
        print_probe_header();
        print_probe(probe.name, verdict);
      }
      return verdict.is_fine() ? kDone : kCheckFailed;
    }
  throw InputError("--probe '{}': expected a probe of this machine, one of {}", *options.probe,
                   fmt::join(names, ", "));
}

std::string program() { return std::filesystem::read_symlink("/proc/self/exe"); }

// Returns the command line of a child process that checks one kernel or runs one probe.
std::vector<std::string> command_for(const BackendRow& backend, const char* flag, std::string_view name) {
  return {program(), "verify", "--backend", std::string(backend.name), flag, std::string(name), "--json"};
}

// ask_all() runs all probes, check_all() checks all kernels. Both append verdicts to `found`, print them
// unless `is_quiet`, and return true if all passed.
bool ask_all(const BackendRow& backend, bool is_quiet, Json& found) {
  bool all_fine = true;
  if (!is_quiet) print_probe_header();
  for (const MachineProbe& probe : backend.verification->probes()) {
    const ProbeVerdict verdict =
        probe_verdict_of(run_child(command_for(backend, "--probe", probe.name), kProbeLimit));
    all_fine &= verdict.is_fine();
    found.push_back(probe_verdict_json(probe.name, verdict));
    if (!is_quiet) print_probe(probe.name, verdict);
  }
  return all_fine;
}
bool check_all(const BackendRow& backend, bool is_quiet, const OwnOptions& own,
               const std::vector<std::string>& flags, Json& found) {
  bool all_ok = true;
  if (!is_quiet) print_header();
  for (const KernelCheck& check : backend.verification->checks(own)) {
    std::vector<std::string> child = command_for(backend, "--row", check.name);
    child.insert(child.end(), flags.begin(), flags.end());
    const Verdict verdict = verdict_of(run_child(child, kLimit));
    all_ok &= verdict.result == Result::kOk;
    found.push_back(verdict_json(backend.name, check.name, verdict));
    if (!is_quiet) print_verdict(check.name, verdict);
  }
  return all_ok;
}

// Name given with --model, and golden data: the file given with --golden, or else the model folder's file.
struct GoldenData {
  std::string model;
  std::filesystem::path file;  // empty: the model has no golden data
};
std::optional<GoldenData> golden_data(const VerifyOptions& options, const Places& places) {
  if (!options.model) return std::nullopt;
  const ModelSource source = find_model(*options.model, places);
  return GoldenData{*options.model,
                    options.golden ? std::filesystem::path(*options.golden) : golden_of(source.folder())};
}

// Compares the results of a whole model with golden data. Returns true if they agree or no data exist.
bool compare_golden(const BackendRow& backend, const GoldenData& data, bool is_quiet,
                    const Settings& settings, Json& found) {
  if (data.file.empty()) {
    if (!is_quiet) fmt::print("\n{} has no golden.json: no golden data were compared\n", data.model);
    return true;
  }
  std::vector<std::string> child{
      program(), "eval", data.model, "--golden", data.file, "--backend", std::string(backend.name), "--json"};
  for (const SettingGroup group : {SettingGroup::kDevice, SettingGroup::kPlaces}) {
    const std::vector<std::string> flags = flags_of(settings, group);
    child.insert(child.end(), flags.begin(), flags.end());
  }
  const Verdict verdict = golden_verdict_of(run_child(child, kGoldenLimit));
  found = verdict_json(backend.name, "golden data", verdict);
  found["model"] = data.model;
  found["file"] = data.file.string();
  if (!is_quiet) {
    fmt::print("\n{} with golden data, from {}; \"numbers\" are prompts\n", data.model, data.file.string());
    print_header();
    print_verdict("golden data", verdict);
  }
  return verdict.result == Result::kOk;
}

int verify_all(const BackendRow& backend, const VerifyOptions& options, const ResolvedSettings& setup,
               const Settings& settings) {
  const std::optional<GoldenData> golden = golden_data(options, setup.places);
  const bool is_quiet = options.prints_json();
  std::optional<NewFile> file;  // opened before the checks, so that a bad name fails early
  if (options.json_file && !is_quiet) file.emplace(*options.json_file);
  // Describe the machine first: the children will change the device's clocks and power.
  const Machine machine = describe_machine(device_facts(backend));
  Json probes = Json::array(), kernels = Json::array();
  const bool all_fine = ask_all(backend, is_quiet, probes);
  if (!is_quiet) fmt::print("\n");
  const bool all_ok =
      check_all(backend, is_quiet, setup.own, flags_of(settings, SettingGroup::kDevice), kernels);
  Json of_golden;
  const bool agrees = !golden || compare_golden(backend, *golden, is_quiet, settings, of_golden);
  Json report = report_json(machine, std::move(probes), std::move(kernels));
  if (golden) report["golden"] = std::move(of_golden);
  if (machine.device)
    if (const std::string reason = keep_report(*machine.device, report); !reason.empty())
      log::warn("the report was not saved: {}", reason);
  if (is_quiet) fmt::print("{}", report_text(report));
  if (file) {
    file->write(report_text(report));
    file->finish();
  }
  return all_fine && all_ok && agrees ? kDone : kCheckFailed;
}

int verify(const VerifyOptions& options, const Settings& settings) {
  const std::vector<const BackendRow*> backends = choose_backends(settings);
  const ResolvedSettings setup = resolve(settings);
  if (options.row) return verify_here(backends, options, setup.own);
  if (options.probe) return probe_here(backends, options);
  int code = kDone;
  for (const BackendRow* backend : backends)
    code = std::max(code, verify_all(*backend, options, setup, settings));
  return code;
}

}  // namespace

Action define_verify(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<VerifyOptions>();
  add_value(command, "--backend", "NAME", settings.backend,
            "backend to check [all that can be checked here]");
  add_value(command, "--row", "NAME", options->row,
            "only this row, in this process: for a debugger or a sanitizer");
  add_value(command, "--probe", "NAME", options->probe, "only this probe, in this process")
      ->excludes("--row");
  add_value(command, "--model", "MODEL", options->model,
            "also compare the results of this model with golden data, if its folder has golden.json")
      ->excludes("--row", "--probe");
  add_value(command, "--golden", "FILE", options->golden, "with --model: compare with these golden data")
      ->needs("--model");
  add_value(command, "--json", "[FILE]", options->json_file,
            "write the report as a JSON object to FILE, for an issue; without FILE to stdout, instead "
            "of the table")
      ->expected(0, 1);
  add_settings(command, settings, {SettingGroup::kDevice, SettingGroup::kPlaces});
  command.footer(kVerifyFooter);
  return [options, &settings] { return verify(*options, settings); };
}

}  // namespace nibble::cli
