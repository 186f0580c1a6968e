#include "cli/bench/compare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "cli/measure/record_member.h"
#include "cli/measure/sample_statistics.h"
#include "core/console/output.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"

namespace nibble::cli {
namespace {

constexpr const char* kBenchCompareFooter{R"(
Measures nothing. A and B are files of records that 'nibble bench --record' appended to, one line for each run. For each test
the command shows whether B differs from A by more than the noise: the rank test of Mann and Whitney over all repetitions of a
file finds a chance below 5 %, and the medians differ by 1 % or more. The interval has the ratios of B to A that the rank test
does not exclude: it holds the true ratio with a probability of 95 %. Alternate several runs of A and B for the best result.
Files that are not the same work (model, formats, backend, tests) are refused; other differences are listed.

With --fail-on slower the exit code is 1 if B is slower in any test, and 2 if a test has too few samples to decide: 4 against 4
are enough.

Examples:
  nibble bench compare old.jsonl new.jsonl
  nibble bench compare main.jsonl change.jsonl --fail-on slower   # in CI)"};

constexpr RecordMember kWork[]{{"the size of the weights in bytes", "/weight_bytes"},
                               {"the number of parameters", "/num_parameters"},
                               {"the backend", "/backend"}};
// Properties in which compared runs may differ, often on purpose. The report lists differences.
constexpr RecordMember kCircumstances[]{{"commit", "/nibble/commit"},
                                        {"uncommitted changes", "/nibble/dirty"},
                                        {"build", "/nibble/build"},
                                        {"compiler", "/nibble/compiler"},
                                        {"CPU", "/machine/cpu"},
                                        {"cores", "/machine/num_cores"},
                                        {"GPU", "/machine/device/name"},
                                        {"driver", "/machine/device/driver"},
                                        {"power limit, W", "/machine/device/power_limit_watts"},
                                        {"threads", "/threads"},
                                        {"tokens per step", "/max_batch_tokens"},
                                        {"tuning", "/tuning"}};

// Returns, for each operation, the formats of weights and activations of all its kernels.
std::map<std::string, std::set<std::string>> formats_of(const Json& run) {
  std::map<std::string, std::set<std::string>> formats;
  for (const Json& row : value_at(run, "/kernels"))
    formats[row.value("operation", "")].insert(
        fmt::format("{} with activations in {}", row.value("weights", "?"), row.value("activations", "?")));
  return formats;
}

void check_same_work(const std::string& name_a, const Json& a, const std::string& name_b, const Json& b) {
  const auto refuse = [&](const std::string& what, const std::string& of_a, const std::string& of_b) {
    throw InputError("{} and {} are not comparable: {} is {} and {}", name_a, name_b, what, of_a, of_b);
  };
  if (model_of(a) != model_of(b)) refuse("the model", model_of(a), model_of(b));
  for (const auto& [name, pointer] : kWork) {
    const Json of_a = value_at(a, pointer), of_b = value_at(b, pointer);
    if (of_a != of_b) refuse(name, text_of(of_a), text_of(of_b));
  }
  const auto formats_b = formats_of(b);
  for (const auto& [operation, formats] : formats_of(a)) {
    // An operation may be missing in B: another version may fuse it with a different operation.
    const auto found = formats_b.find(operation);
    if (found != formats_b.end() && found->second != formats)
      refuse("the format of " + operation, fmt::format("{}", fmt::join(formats, " or ")),
             fmt::format("{}", fmt::join(found->second, " or ")));
  }
}

struct Samples {
  std::string test;
  std::vector<double> tokens_per_second;
};

bool is_test(const Json& test) {
  const Json samples = value_at(test, "/tokens_per_second/samples");
  return value_at(test, "/test").is_string() && samples.is_array() && !samples.empty() &&
         std::ranges::all_of(samples,
                             [](const Json& speed) { return speed.is_number() && speed.get<double>() > 0; });
}
bool is_run(const Json& run) {
  const Json tests = value_at(run, "/tests");
  return tests.is_array() && std::ranges::all_of(tests, is_test);
}

// Merges the samples of tests with the same name. The result has the order in which tests first occur.
std::vector<Samples> samples_of(const Runs& runs) {
  std::vector<Samples> all;
  for (const Json& run : runs)
    for (const Json& test : run.at("tests")) {
      const auto name = test.at("test").get<std::string>();
      auto found = std::ranges::find(all, name, &Samples::test);
      if (found == all.end()) found = all.insert(all.end(), {name, {}});
      const auto samples = test.at("tokens_per_second").at("samples").get<std::vector<double>>();
      found->tokens_per_second.insert(found->tokens_per_second.end(), samples.begin(), samples.end());
    }
  return all;
}

const Samples* find(const std::vector<Samples>& all, const std::string& test) {
  const auto found = std::ranges::find(all, test, &Samples::test);
  return found == all.end() ? nullptr : &*found;
}

std::string names(const std::vector<Samples>& all) {
  std::string list;
  for (const Samples& samples : all) list += (list.empty() ? "" : ", ") + samples.test;
  return list;
}

std::string_view verdict(Comparison b_is) {
  switch (b_is) {
    case Comparison::kFaster:
      return "B is faster";
    case Comparison::kSlower:
      return "B is slower";
    case Comparison::kTooFewSamples:
      return "too few samples";
    case Comparison::kWithinNoise:
      break;
  }
  return "within the noise";
}

std::string row(const Samples& a, const Samples& b, const Difference& difference) {
  const auto cell = [](const Samples& samples) {
    return fmt::format("{:.2f} ({})", statistics_of(samples.tokens_per_second).median,
                       samples.tokens_per_second.size());
  };
  const auto& interval = difference.interval;
  return fmt::format("| {:<18} | {:>14} | {:>14} | {:>8.3f} | {:>14} | {:>6.3f} | {:<16} |\n", a.test,
                     cell(a), cell(b), difference.ratio,
                     interval ? fmt::format("{:.3f} to {:.3f}", interval->low, interval->high) : "-",
                     difference.chance, verdict(difference.b_is));
}

std::string values_of(const Runs& runs, const char* pointer) {
  std::vector<std::string> values;
  for (const Json& run : runs)
    if (const std::string text = text_of(value_at(run, pointer));
        std::ranges::find(values, text) == values.end())
      values.push_back(text);
  return fmt::format("{}", fmt::join(values, " or "));
}

std::string circumstances(const Runs& a, const Runs& b) {
  std::string lines;
  for (const auto& [name, pointer] : kCircumstances) {
    const std::string of_a = values_of(a, pointer), of_b = values_of(b, pointer);
    if (of_a != of_b) lines += fmt::format("- {}: {} in A, {} in B\n", name, of_a, of_b);
  }
  return lines;
}

std::string contradictions_of(const std::string& name, const Runs& runs) {
  std::string lines;
  for (const Json& run : runs)
    for (const Json& contradiction : value_at(run, "/contradictions"))
      lines += fmt::format("- {} contradicts itself: {}\n", name, text_of(contradiction));
  return lines;
}

}  // namespace

Runs read_runs(const std::filesystem::path& path) {
  std::istringstream file(read_text_file(path));
  Runs runs;
  while (!(file >> std::ws).eof()) {
    Json run;
    try {
      file >> run;
    } catch (const Json::parse_error&) {
      run = nullptr;
    }
    if (!is_run(run))
      throw InputError("{}: record {} is not a record of 'nibble bench --json'", path.string(),
                       runs.size() + 1);
    runs.push_back(std::move(run));
  }
  if (runs.empty()) throw InputError("{}: contains no record of 'nibble bench --json'", path.string());
  return runs;
}

ComparedRuns compare_runs(const std::string& name_a, const Runs& a, const std::string& name_b,
                          const Runs& b) {
  for (const Json& run : a) check_same_work(name_a, a.front(), name_a, run);
  for (const Json& run : b) check_same_work(name_a, a.front(), name_b, run);

  const std::vector<Samples> all_a = samples_of(a), all_b = samples_of(b);
  ComparedRuns compared;
  std::string rows, only_in_a, only_in_b;
  for (const Samples& samples : all_a) {
    const Samples* other = find(all_b, samples.test);
    if (!other) {
      only_in_a += fmt::format("- {} is only in A\n", samples.test);
      continue;
    }
    const Difference difference = compare_speeds(samples.tokens_per_second, other->tokens_per_second);
    rows += row(samples, *other, difference);
    if (difference.b_is == Comparison::kSlower) compared.slower.push_back(samples.test);
    if (difference.b_is == Comparison::kTooFewSamples) compared.undecided.push_back(samples.test);
  }
  for (const Samples& samples : all_b)
    if (!find(all_a, samples.test)) only_in_b += fmt::format("- {} is only in B\n", samples.test);
  if (rows.empty())
    throw InputError("{} and {} are not comparable: the tests are {} and {}", name_a, name_b, names(all_a),
                     names(all_b));

  compared.text =
      fmt::format("| {:<18} | {:>14} | {:>14} | {:>8} | {:>14} | {:>6} | {:<16} |\n", "test", "A, t/s (n)",
                  "B, t/s (n)", "B over A", "95 % interval", "chance", "") +
      fmt::format("| {:-<18} | {:->13}: | {:->13}: | {:->7}: | {:->13}: | {:->5}: | {:-<16} |\n", "", "", "",
                  "", "", "", "") +
      rows +
      fmt::format(
          "\n- A is {}, B is {}: medians of n samples\n"
          "- 95 % interval: of B over A, by the same rank test\n"
          "- a difference exceeds the noise if its probability by chance is below {:.0f} % (rank test) "
          "and the medians differ by {:.0f} % or more\n",
          name_a, name_b, 100 * kNoiseChance, 100 * kSmallestDifference) +
      only_in_a + only_in_b + circumstances(a, b) + contradictions_of("A", a) + contradictions_of("B", b);
  return compared;
}

int exit_code_if_slower(const ComparedRuns& compared) {
  if (!compared.undecided.empty())
    throw InputError("--fail-on slower: too few samples of {}; 4 against 4 are enough (bench -r 4)",
                     fmt::join(compared.undecided, ", "));
  if (compared.slower.empty()) return kDone;
  print_to(stderr, "B is slower: {}\n", fmt::join(compared.slower, ", "));
  return kCheckFailed;
}

Action define_bench_compare(CLI::App& command, Settings&) {
  struct Files {
    std::string a, b;
    std::optional<std::string> fail_on;
  };
  const auto files = std::make_shared<Files>();
  command.add_option("A", files->a, "file of records")->required()->type_name("");
  command.add_option("B", files->b, "file of records that is compared with A")->required()->type_name("");
  command.add_option("--fail-on", files->fail_on, "exit with code 1 if B is slower in any test")
      ->type_name("slower")
      ->check(CLI::IsMember({"slower"}));
  command.footer(kBenchCompareFooter);
  return [files] {
    const Runs a = read_runs(files->a), b = read_runs(files->b);
    const ComparedRuns compared = compare_runs(files->a, a, files->b, b);
    fmt::print("{}", compared.text);
    return files->fail_on ? exit_code_if_slower(compared) : kDone;
  };
}

}  // namespace nibble::cli
