// nibble tune: finds the fastest thread count and work sizes on this CPU, or the fastest kernels for each
// number of rows on a GPU (tune/kernels.h). Stores them for all commands.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/measure/record_file.h"
#include "cli/measure/sample_statistics.h"
#include "cli/measure/speed_tests.h"
#include "cli/options.h"
#include "cli/tune/kernels.h"
#include "core/errors/error.h"
#include "core/threads/thread_pool.h"
#include "setup/machine/tuning.h"
#include "setup/model/model.h"
#include "setup/plan/experts.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

constexpr const char* kTuneFooter{R"(
Finds the fastest number of threads and work sizes for this model, or the fastest kernels of a GPU (--backend cuda), and writes
them to a file that every command on a CPU or GPU of this name reads (--tuning names another file; --tuning off reads none). They hold for this build of nibble and for models of
the same widths and formats; another build ignores them with a warning. They change no bit of any answer, and tuning is
optional: the built-in values were measured too. Values are measured in turns, round after round (numbers of threads one
after another, because each has to load the model). One replaces the built-in value if it is better by more than 2 %, and in
four of five rounds, so that noise is not kept. Run nothing else meanwhile.

With --backend cuda, each kernel is run, if it can, with numbers of rows that the kernel table gives to other kernels, checked
against the formula, and then timed within a step, with random weights of the model's shapes in four layers. Steps that other
kernels make faster by more than 2 % run these from then on, on this GPU with this driver; 'nibble inspect --kernels' shows them.
Also prints the rows of the table by these times, for developers.

Examples:
  nibble tune openai/gpt-oss-20b
  nibble tune synthetic:gpt-oss-120b --backend cuda --record tune.jsonl
  nibble tune gpt-oss-20b.gguf --tuning tuning.json --threads 16   # to another file)"};

constexpr double kWorthIt{1.02};
constexpr BenchTest kPrompt{BenchKind::kPrefill, 512, 0}, kFewTokens{BenchKind::kPrefill, 64, 0},
    kAnswer{BenchKind::kDecode, 32, 0};
constexpr BenchTest kTests[]{kPrompt, kFewTokens, kAnswer};

struct TuneOptions {
  std::string model;
  int num_rounds{5};
  std::vector<std::string> rows{kTunedRows};
  std::optional<std::string> record;
};

struct TunedValue {
  const char* name;
  int cpu::CpuTuning::*member;
  std::vector<int> values;
  BenchTest test;  // test whose speed depends most on this value
};

double tokens_per_second(Backend& backend, const BackendOptions& room, const BenchTest& test) {
  double speed{0};
  run_tests(backend, room, {.tests = {&test, 1}},
            [&](const BenchResult& result) { speed = result.tokens_per_second.front(); });
  return speed;
}

// Returns the index of the best value: 0 unless another one is faster beyond noise. `speeds`: [value][round].
size_t best_of(const char* what, const std::vector<int>& values, const std::string& test,
               const std::vector<std::vector<double>>& speeds) {
  size_t best = 0;
  double best_ratio = kWorthIt;
  for (size_t v = 0; v < values.size(); ++v) {
    std::vector<double> ratios;  // ratios per round: a slow round is slow for all values
    for (size_t round = 0; round < speeds[v].size(); ++round)
      ratios.push_back(speeds[v][round] / speeds[0][round]);
    const double ratio = statistics_of(ratios).median;
    std::ranges::sort(ratios);
    const double low_ratio = ratios[ratios.size() / 5];  // four of five rounds reach this ratio
    fmt::print("| {:<16} | {:>5} | {:<12} | {:8.2f} | {:6.3f} |\n", what, values[v], test,
               statistics_of(speeds[v]).median, ratio);
    if (ratio > best_ratio && low_ratio > 1) {
      best = v;
      best_ratio = ratio;
    }
  }
  std::fflush(stdout);
  return best;
}

struct Tuned {
  Backend& backend;
  const BackendTuning& functions;
  const BackendOptions& room;
};

void tune_value(const TunedValue& tuned, const Tuned& at, int num_rounds, cpu::CpuTuning& tuning) {
  std::vector<std::vector<double>> speeds(tuned.values.size());
  for (int round = 0; round < num_rounds; ++round)
    for (size_t v = 0; v < tuned.values.size(); ++v) {
      cpu::CpuTuning candidate = tuning;
      candidate.*tuned.member = tuned.values[v];
      at.functions.retune(at.backend, candidate);
      speeds[v].push_back(tokens_per_second(at.backend, at.room, tuned.test));
    }
  tuning.*tuned.member = tuned.values[best_of(tuned.name, tuned.values, name(tuned.test), speeds)];
  at.functions.retune(at.backend, tuning);
}

std::vector<int> thread_counts() {  // numbers of threads to try; the first is the number of usable cores
  const int all = num_usable_cores();
  std::vector<int> counts{all};
  for (const int count : {all - 1, all * 3 / 4, all / 2, all / 4})
    if (count >= 1 && std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
  return counts;
}

// Returns the thread count with the most requests (prompt and answer) per second. Loads the model for each
// count, because a backend can't change its number of threads.
int tune_threads(const Model& model, ResolvedSettings setup, int num_rounds) {
  const std::vector<int> counts = thread_counts();
  std::vector<std::vector<double>> speeds(counts.size());
  for (size_t c = 0; c < counts.size(); ++c) {
    set_threads(setup, counts[c]);
    const BackendOptions room = room_for(kTests, model.config, setup);
    const auto backend = load(open_model_for(model.source.name, setup), setup, room);
    for (int round = 0; round < num_rounds; ++round)
      speeds[c].push_back(1 / (kPrompt.num_tokens / tokens_per_second(*backend, room, kPrompt) +
                               kAnswer.num_tokens / tokens_per_second(*backend, room, kAnswer)));
  }
  return counts[best_of("threads", counts, "requests", speeds)];
}

void write(const std::filesystem::path& path, const TunedMachine& machine, const std::string& model,
           const Tuning& tuning) {
  if (path.empty()) {
    fmt::print("not written: --tuning is off, or HOME is not set\n");
    return;
  }
  write_tuning(path, machine, model, tuning);
  fmt::print("written to {}\n", path.string());
}

int tune_on_device(const TuneOptions& options, const std::filesystem::path& path, const std::string& build,
                   const ResolvedSettings& setup, const std::string& command_line) {
  RecordFile file(options.record);
  const Model model = open_model_for(options.model, setup);
  const TunedKernels tuned =
      tune_kernels({.num_rows = read_numbers(options.rows, "--rows", 2, kMostTunedRows),
                    .num_repetitions = options.num_rounds,
                    .record_name = options.record.value_or("...")},
                   model, setup, command_line);
  file.append(tuned.output.record);
  fmt::print("{}", tuned.output.table);
  write(path, {machine_name(setup.backend->device->facts()), build}, tuned_model(setup, model.config),
        tuned.tuning);
  return kDone;
}

int tune(const TuneOptions& options, Settings settings, const std::string& command_line) {
  const std::filesystem::path path = tuning_path(settings);
  prepare_tuning_file(path);
  settings.tuning = "off";  // start from the built-in values
  if (!settings.backend) settings.backend = "cpu";
  ResolvedSettings setup = resolve(settings);
  const BackendRow& row = *setup.backend;
  if (row.device) return tune_on_device(options, path, settings.build, setup, command_line);
  if (!row.tuning) throw InputError("--backend {}: nothing to tune; use cpu or cuda", row.name);
  if (options.record || options.rows != TuneOptions{}.rows)
    throw InputError(
        "--rows and --record are only for --backend cuda; the results for a CPU go to the file of --tuning");
  const Model model = open_model_for(options.model, setup);

  fmt::print(
      "| {:<16} | {:>5} | {:<12} | {:>8} | {:>6} |\n| {:-<16} | {:->4}: | {:-<12} | {:->7}: | {:->5}: |\n",
      "what", "value", "test", "a second", "ratio", "", "", "", "", "");
  Tuning tuning;
  if (!setup.threads) set_threads(setup, tune_threads(model, setup, options.num_rounds));
  tuning.num_threads = *setup.threads;
  const BackendOptions room = room_for(kTests, model.config, setup);
  const auto backend = load(model, setup, room);
  const std::vector<KernelChoice> kernels = backend->kernels();
  std::vector<TunedValue> tuned_values{
      {"panel_rows", &cpu::CpuTuning::panel_rows, {32, 16, 48, 64}, kAnswer},
      {"large_panel_rows", &cpu::CpuTuning::large_panel_rows, {96, 32, 64, 128, 192}, kPrompt}};
  const auto many =
      std::ranges::find_if(kernels, [](const KernelChoice& kernel) { return kernel.from_rows > 1; });
  if (many != kernels.end()) {  // tune the number of tokens from which on this kernel runs
    // Test with kFewTokens: from a prompt of 64 tokens, each expert gets only a few.
    std::vector<int> values{many->from_rows};
    for (const int value : {4, 8, 16, 32})
      if (value != values.front()) values.push_back(value);
    tuning.cpu.tile_from_tokens = many->from_rows;
    tuned_values.push_back({"tile_from_tokens", &cpu::CpuTuning::tile_from_tokens, values, kFewTokens});
  }
  for (const TunedValue& tuned : tuned_values)
    tune_value(tuned, {*backend, *row.tuning, room}, options.num_rounds, tuning.cpu);

  const TunedMachine machine{machine_name(), settings.build};
  fmt::print("\n{}: {}\n", machine.name, to_json(tuning).dump());
  write(path, machine, tuned_model(setup, model.config), tuning);
  return kDone;
}

}  // namespace

Action define_tune(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<TuneOptions>();
  add_model(command, options->model);
  add_value(command, "-r,--rounds", "N", options->num_rounds,
            fmt::format("number of times that each value is measured [{}]", options->num_rounds))
      ->check(CLI::Range(1, 100));
  add_numbers(command, "--rows", options->rows, "on a GPU: numbers of rows at which to time the kernels");
  add_value(command, "--record", "FILE", options->record,
            "on a GPU: append the measurements to FILE as a JSON line");
  add_settings(command, settings, {SettingGroup::kMachine, SettingGroup::kDevice, SettingGroup::kPlaces});
  command.footer(kTuneFooter);
  return [options, &settings, &command] { return tune(*options, settings, command_line(command)); };
}

}  // namespace nibble::cli
