#include "cli/profile.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/measure/backend_sequence.h"
#include "cli/measure/sample_statistics.h"
#include "cli/measure/speed_tests.h"
#include "core/bytes_text.h"
#include "core/clock.h"
#include "core/error.h"
#include "setup/load.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter{R"(
One step, again and again: -d tokens are in the KV cache, and -p tokens come (1: decoding). On a GPU each launch leaves when its
first block could begin and when its last one was done; gaps are the times in between, in which the next one waits. The parts add
up to the recorded step; below stands what a step takes by the host's clock when nobody records. Norms that an operation makes for
itself count as its own; "launches" of the CPU are operations.

Examples:
  nibble profile synthetic:gpt-oss-120b
  nibble profile synthetic:gpt-oss-120b -d 16384 --mxfp4-layers all
  nibble profile synthetic:gpt-oss-120b -p 2048 --max-batch-tokens 2048 --trace step.json)"};

struct Options {
  std::string model;
  int num_tokens{1}, depth{0}, num_repetitions{20};
  std::optional<std::string> trace;
  bool as_json{false};
};

constexpr std::array<std::string_view, 5> kPartNames{"dense", "experts", "attention", "norms and routing",
                                                     "lm_head and sampling"};

StepPart part_of(std::string_view operation) {
  if (operation == "qkv" || operation == "attention_output") return StepPart::kDense;
  if (operation == "experts_gate_up" || operation == "experts_down") return StepPart::kExperts;
  if (operation == "attend") return StepPart::kAttention;
  if (operation == "unembed") return StepPart::kOutput;
  return StepPart::kRouting;
}

double median(std::vector<double> values) { return statistics_of(values).median; }

struct Steps {
  std::vector<std::vector<TimedWork>> recorded;
  double unrecorded{0};  // what a step takes when nobody records: the median, microseconds
};

// Each kind in turn: a machine that is faster later is so for both.
Steps run_steps(BackendSequence& sequence, std::span<const TokenId> tokens, int num_repetitions) {
  sequence.run_repeatable_step(tokens, 0, true);  // to warm up
  Steps steps;
  std::vector<double> times;
  for (int repetition = 0; repetition < num_repetitions; ++repetition) {
    steps.recorded.push_back(sequence.profile(tokens, 0));
    const Stopwatch watch;
    sequence.run_repeatable_step(tokens, 0, true);
    times.push_back(watch.seconds() * 1e6);
  }
  steps.unrecorded = median(times);
  return steps;
}

void print_table(const std::vector<PartTime>& parts, double bandwidth, double unrecorded) {
  double total = 0;
  PartTime all{"recorded step", 0, 0, 0};
  for (const PartTime& part : parts) {
    total += part.microseconds;
    all.num_launches += part.num_launches;
    all.bytes += part.bytes;
  }
  all.microseconds = total;
  fmt::print("| {:<20} | {:>9} | {:>7} | {:>8} | {:>10} | {:>7} | {:>6} |\n", "part", "us", "of step",
             "launches", "bytes", "GB/s", "share");
  fmt::print("| {:-<20} | {:->9} | {:->7} | {:->8} | {:->10} | {:->7} | {:->6} |\n", "", ":", ":", ":", ":",
             ":", ":");
  const auto row = [&](const PartTime& part) {
    const double rate = part.microseconds > 0 ? static_cast<double>(part.bytes) / part.microseconds * 1e6 : 0;
    fmt::print("| {:<20} | {:9.1f} | {:5.1f} % | {:8} | {:>10} | {:7.1f} | {:4.1f} % |\n", part.part,
               part.microseconds, 100 * part.microseconds / total, part.num_launches, bytes_text(part.bytes),
               rate / 1e9, 100 * rate / bandwidth);
  };
  for (const PartTime& part : parts) row(part);
  row(all);
  fmt::print(
      "\nread bandwidth measured here: {:.1f} GB/s; a step by the host's clock: {:.1f} us, {:+.1f} % of the "
      "sum\n",
      bandwidth / 1e9, unrecorded, 100 * (unrecorded / total - 1));
}

void print_json(const std::vector<PartTime>& parts, double bandwidth, double unrecorded) {
  Json json{{"read_bandwidth", bandwidth}, {"step_us", unrecorded}};
  for (const PartTime& part : parts)
    json["parts"].push_back({{"part", part.part},
                             {"us", part.microseconds},
                             {"launches", part.num_launches},
                             {"bytes", part.bytes}});
  fmt::print("{}\n", json.dump(2));
}

int profile(const Options& options, const Settings& settings) {
  const ResolvedSettings setup = resolve(settings);
  const Model model = open_model(options.model, setup.places);
  const BenchTest test{BenchKind::kPrefill, options.num_tokens, options.depth};
  const BackendOptions room = room_for({&test, 1}, model.config, setup);
  if (options.num_tokens > room.max_batch_tokens)
    throw InputError("-p {}: a step has up to {} tokens (--max-batch-tokens)", options.num_tokens,
                     room.max_batch_tokens);
  const double bandwidth = setup.backend->read_bandwidth();
  const std::unique_ptr<Backend> backend = load(model, setup, room);

  BackendSequence sequence(*backend, room);
  sequence.feed(tokens_at(0, options.depth, model.config.vocab));
  sequence.reserve(options.num_tokens);
  const std::vector<TokenId> tokens = tokens_at(options.depth, options.num_tokens, model.config.vocab);
  const auto [repetitions, unrecorded] = run_steps(sequence, tokens, options.num_repetitions);
  if (repetitions.front().empty())
    throw InputError("the backend {} does not say where its time goes: cpu and cuda do", backend->name());

  const std::vector<PartTime> parts =
      part_times(repetitions, step_costs(model.config, formats_of(model, setup), options.num_tokens,
                                         options.depth + options.num_tokens));
  options.as_json ? print_json(parts, bandwidth, unrecorded) : print_table(parts, bandwidth, unrecorded);
  if (options.trace) {
    std::ofstream file(*options.trace);
    file << chrome_trace(repetitions.back());
    if (!file.flush()) throw InputError("--trace {}: it cannot be written", *options.trace);
  }
  return kDone;
}

}  // namespace

std::vector<PartTime> part_times(std::span<const std::vector<TimedWork>> repetitions,
                                 const std::vector<OperationCost>& costs) {
  std::vector<PartTime> parts;
  for (const std::string_view name : kPartNames) parts.push_back({name, 0, 0, 0});
  for (const TimedWork& work : repetitions.front()) ++parts[static_cast<size_t>(work.part)].num_launches;
  for (const OperationCost& row : costs)
    parts[static_cast<size_t>(part_of(row.operation))].bytes += row.cost.bytes_touched();

  std::vector<std::vector<double>> times(kPartNames.size() + 1);
  for (const std::vector<TimedWork>& step : repetitions) {
    std::vector<double> sums(times.size());
    double end = step.front().begin;
    for (const TimedWork& work : step) {
      sums.back() += std::max(0.0, work.begin - end);
      sums[static_cast<size_t>(work.part)] += std::max(0.0, work.end - std::max(work.begin, end));
      end = std::max(end, work.end);
    }
    for (size_t part = 0; part < sums.size(); ++part) times[part].push_back(sums[part]);
  }
  parts.push_back({"gaps", 0, 0, 0});
  for (size_t part = 0; part < parts.size(); ++part) parts[part].microseconds = median(times[part]);
  return parts;
}

std::string chrome_trace(std::span<const TimedWork> work) {
  Json events = Json::array();
  for (const TimedWork& piece : work)
    events.push_back({{"name", piece.name},
                      {"cat", kPartNames[static_cast<size_t>(piece.part)]},
                      {"ph", "X"},
                      {"ts", piece.begin},
                      {"dur", piece.end - piece.begin},
                      {"pid", 0},
                      {"tid", static_cast<int>(piece.part)}});
  return Json{{"traceEvents", events}}.dump();
}

Action define_profile(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<Options>();
  add_model(command, options->model);
  const auto add_number = [&](const char* flag, int& number, const char* what, int least, int most) {
    command.add_option(flag, number, fmt::format("{} [{}]", what, number))
        ->type_name("N")
        ->check(CLI::Range(least, most));
  };
  add_number("-p,--prompt-length", options->num_tokens, "tokens of the step", 1, 1 << 20);
  add_number("-d,--depth", options->depth, "tokens in the KV cache before it", 0, 1 << 20);
  add_number("-r,--repetitions", options->num_repetitions, "how often it runs", 1, 1000);
  command.add_option("--trace", options->trace, "write one step in the format of Chrome's trace viewer")
      ->type_name("FILE");
  command.add_flag("--json", options->as_json, "one JSON object in place of the table");
  add_settings(command, settings, {SettingGroup::kMachine, SettingGroup::kPlaces});
  command.footer(kFooter);
  return [options, &settings] { return profile(*options, settings); };
}

}  // namespace nibble::cli
