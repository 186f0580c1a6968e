// nibble bench: measures a model's speed on this machine and the share of memory bandwidth it reaches.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/bench_flags.h"
#include "cli/bench/clients.h"
#include "cli/bench/compare.h"
#include "cli/bench/report.h"
#include "cli/bench/table.h"
#include "cli/command.h"
#include "cli/measure/coherence.h"
#include "cli/measure/preset.h"
#include "cli/measure/record_file.h"
#include "cli/measure/speed_tests.h"
#include "core/errors/error.h"
#include "core/threads/thread_pool.h"
#include "setup/machine/machine.h"
#include "setup/machine/tuning.h"
#include "setup/model/model.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/plan/storage_formats.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"

namespace nibble::cli {
namespace {

constexpr const char* kBenchFooter{R"(
Without a command, bench runs one sequence of random tokens, the same every time, directly on the backend, and takes the
likeliest token at each step. Tests have llama-bench's names: pp512 prefills a prompt of 512 tokens, tg128 decodes 128 tokens
one by one, and "@ d4096" means with 4,096 tokens already in the KV cache. Each test runs --warmup times untimed, then -r
times, in order of depth. Several lengths and several depths give a grid: a row for each depth, medians in the cells.
Below the table stand the TFLOP/s of prompts, counted from their matrix products.

GB/s counts each byte of weights and KV cache that a step must read once (experts of a prefill: the number that independent
uniform routing would hit). The share is relative to the read bandwidth of all cores together, measured at the start. Notes
mark repetitions that differ by more than a tenth (noisy) or are equal in five digits (suspiciously equal), weights that fit
into the caches, where the share says nothing about memory (in caches), and shares over 100 % of weights that do not fit.
Contradictions are listed below the table: a share over 100 %, more tokens in less time, a test that gets faster with more
tokens in the KV cache. After the tests the model is asked what 17 + 25 is: a wrong kernel can be fast. "DOUBTFUL" marks an answer
without 42; only you can say whether the model should know it. Random weights are not asked.

--preset spark runs the tests that vLLM, SGLang and llama.cpp published for a DGX Spark: two grids (pp512 to pp8192, tg16 to
tg256, up to 32,768 tokens deep), then 1, 8 and 64 clients in four formats, then prompts of 2,048 tokens. It prints the time
that each run is expected to take, repeats each test 3 times unless -r says otherwise, and with --record appends a record
after each run. "--preset spark:grid-mxfp4,prompt" does only these runs. Each run loads the model anew.

Examples:
  nibble bench synthetic:gpt-oss-20b -p 512,2048 -n 32,128
  nibble bench openai/gpt-oss-20b -p 0 -n 128 -d 0,4096,16384 -r 10
  nibble bench tiny --threads 1 --record A.jsonl
  nibble bench openai/gpt-oss-120b --preset spark --record spark.jsonl
  nibble bench compare A.jsonl B.jsonl
  nibble bench clients synthetic:gpt-oss-120b --tokenizer bytes --clients 1,16,64 -p 1024 -n 256
  nibble bench replay tiny requests.jsonl --speculate auto
  nibble bench acceptance synthetic:gpt-oss-20b 0.7,0.5,0.3 0.9
  nibble bench serve http://127.0.0.1:8080 --clients 1,4,16   # a server)"};

constexpr CommandRow kMeasurements[]{
    {"clients", "many requests at once in an engine, without HTTP", &define_bench_clients},
    {"replay", "requests of a file, with drafts and without", &define_bench_replay},
    {"acceptance", "decoding with drafts that are right with given probabilities", &define_bench_acceptance},
    {"compare", "which differences between two files of records exceed the noise", &define_bench_compare},
    {"serve", "put load on a server with OpenAI's API, and time its answers", &define_bench_serve},
};

struct BenchOptions : BenchFlags {
  std::vector<std::string> prompt_lengths{"512"}, output_lengths{"128"}, depths{"0"};
  bool as_csv{false};
  std::string preset, draft_head;  // empty: not given
};

std::vector<BenchTest> tests_of(const BenchOptions& options) {
  const std::vector<int> prompt_lengths = read_numbers(options.prompt_lengths, "-p", 0, kMaxBenchTokens);
  const std::vector<int> output_lengths = read_numbers(options.output_lengths, "-n", 0, kMaxBenchTokens);
  std::vector<BenchTest> tests =
      list_tests(prompt_lengths, output_lengths, read_numbers(options.depths, "-d", 0, kMaxBenchTokens));
  if (tests.empty()) throw InputError("-p 0 and -n 0 leave nothing to measure");
  return tests;
}

// Returns options with room for the tests, and for the question that is asked after them if the context is
// long enough for it (measure/coherence.h).
BackendOptions room_of_bench(std::vector<BenchTest> tests, const Config& config,
                             const ResolvedSettings& setup) {
  tests.push_back({BenchKind::kPrefill, std::min(kCoherencePositions, context_of(config, setup)), 0});
  return room_for(tests, config, setup);
}

int bench(const BenchOptions& options, const std::vector<BenchTest>& tests, const Settings& settings,
          const std::string& command_line, const std::string& preset_run = {}) {
  RecordFile record(options.record);
  const std::string began = utc_now();
  const ResolvedSettings resolved = resolve(settings);
  const BackendRow& row = *resolved.backend;
  const Model model = open_model_for(options.model, resolved);
  const BackendOptions room = room_of_bench(tests, model.config, resolved);
  // Measure the bandwidth first: the measurement needs memory that the weights will fill.
  const double read_bandwidth = row.memory.read_bandwidth(resolved.own);
  const std::unique_ptr<Backend> backend = load(model, resolved, room);

  const Tuning* tuned = tuning_of(resolved, model.config);
  BenchSetup setup{.record = record_of_run(began, command_line, row, *backend, options.num_warmups),
                   .preset_run = preset_run,
                   .model = model.source.name,
                   .weight_bytes = weight_bytes(model.config),
                   .num_parameters = count_parameters(model.config).total,
                   .backend = std::string(backend->name()),
                   .num_threads = room.num_threads > 0 ? room.num_threads : num_usable_cores(),
                   .max_batch_tokens = room.max_batch_tokens,
                   .num_repetitions = options.num_repetitions,
                   .read_bandwidth = read_bandwidth,
                   .tuning = tuned ? std::optional(*tuned) : std::nullopt,
                   .counters = {}};
  std::vector<BenchResult> results;
  BenchTable table(setup, tests);
  if (!options.as_json) fmt::print("{}", options.as_csv ? csv_header() : table.head());
  run_tests(*backend, room,
            {.tests = tests,
             .num_repetitions = options.num_repetitions,
             .num_warmups = options.num_warmups,
             .formats = formats_of(model, resolved)},
            [&](const BenchResult& result) {
              results.push_back(result);
              if (options.as_json) return;
              fmt::print("{}", options.as_csv ? csv_row(setup, result) : table.add(result));
              std::fflush(stdout);  // Show the row now: the next test may take minutes.
            });
  // Read the device's facts right after the tests: its clocks and temperature are still as under load.
  setup.record.machine.device = device_facts(row);
  setup.counters = backend->counters();
  setup.launches = backend->launches();
  if (!options.as_csv) setup.coherence = ask(*backend, room, model, resolved.places);
  const std::string line = record_line(bench_json(setup, results));
  record.append(line);
  if (options.as_json)
    fmt::print("{}", line);
  else if (!options.as_csv)
    fmt::print("{}{}", table.notes(), markdown_footer(setup));
  return kDone;
}

// Returns the expected seconds of each run; nullopt if the speed of this machine's device is unknown.
std::vector<std::optional<double>> expected_of(std::span<const PresetRun> runs, const BenchOptions& options,
                                               const Settings& settings) {
  std::vector<std::optional<double>> all;
  for (const PresetRun& run : runs) {
    const ResolvedSettings setup = resolve(settings_of(run, settings));
    const auto& device = setup.backend->device;
    const std::string name = device ? device->known_name() : "";
    all.emplace_back();
    if (name.empty()) continue;
    const Model model = open_model_for(options.model, setup);
    const StorageFormats formats = formats_of(model, setup);
    all.back() = expected_seconds(
        run, options.num_warmups + options.num_repetitions, setup.options.max_batch_tokens,
        [&](const PredictedStep& step) {
          return total_of(device->predict_on(name, {model.config, formats}, setup.own, step, {}).operations) /
                 1e6;
        });
  }
  return all;
}

int bench_run(const PresetRun& run, const BenchOptions& options, Settings settings,
              const std::string& command_line) {
  const std::string preset_run =
      fmt::format("{}: {}", options.preset.substr(0, options.preset.find(':')), run.name);
  if (run.is_grid()) return bench(options, run.tests(), settings, command_line, preset_run);
  settings.speculate = run.has_draft_head ? "eagle3=" + options.draft_head : "off";
  // Random weights have no vocabulary, so the tokenizer of single bytes is used.
  if (!settings.tokenizer && options.model.starts_with("synthetic:")) settings.tokenizer = "bytes";
  const ClientsOptions clients{options, run.num_clients, run.prompt_lengths.front(),
                               run.output_lengths.front(), preset_run};
  return print_measurement(clients, settings, command_line, &bench_clients);
}

int bench_preset(const BenchOptions& options, const Settings& settings, const std::string& command_line) {
  const RecordFile refused_early(options.record);  // refuse a bad path early; each run opens the file itself
  const std::vector<PresetRun> runs = preset_runs(options.preset, !options.draft_head.empty());
  const std::vector<std::optional<double>> expected = expected_of(runs, options, settings);
  if (!options.as_json) fmt::print("{}", plan_text(runs, expected));
  for (const PresetRun& run : runs) {
    if (!options.as_json) fmt::print("\n## {}: {}\n\n", run.name, run.what);
    std::fflush(stdout);
    bench_run(run, options, settings_of(run, settings), command_line);
  }
  return kDone;
}

void add_preset_flags(CLI::App& command, BenchOptions& options) {
  CLI::Option* preset =
      add_value(command, "--preset", "NAME", options.preset,
                fmt::format("all measurements of a preset, or NAME:RUN,...: {}", preset_names()));
  for (const char* flag : {"-p", "-n", "-d", "--csv"}) preset->excludes(command.get_option(flag));
  add_value(command, "--draft-head", "FOLDER", options.draft_head,
            "with --preset: prefill and decode with this EAGLE-3 head too")
      ->needs(preset);
}

void add_flags(CLI::App& command, Settings& settings, BenchOptions& options) {
  // MODEL is optional here, because the subcommands have a MODEL of their own.
  add_model(command, options.model)->required(false);
  add_numbers(command, "-p,--prompt-lengths", options.prompt_lengths,
              "tokens of the prompts to prefill; 0: none");
  add_numbers(command, "-n,--output-lengths", options.output_lengths, "tokens to decode; 0: none");
  add_numbers(command, "-d,--depths", options.depths, "tokens in the KV cache before those that are timed");
  command.add_flag("--csv", options.as_csv, "print the table as CSV");
  add_bench_flags(command, settings, options);
  command.get_option("--csv")->excludes("--json");
  add_preset_flags(command, options);
  command.footer(kBenchFooter);
}

}  // namespace

Action define_bench(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<BenchOptions>();
  add_flags(command, settings, *options);
  std::map<std::string, Action> measurements;
  for (const CommandRow& row : kMeasurements)
    measurements[row.name] = row.define(*command.add_subcommand(row.name, row.what), settings);
  return [options, measurements, &settings, &command] {
    if (const auto given = command.get_subcommands(); !given.empty()) {
      check_nothing_before(command, *given.front());
      return measurements.at(given.front()->get_name())();
    }
    if (options->model.empty())
      throw InputError("MODEL is required; 'nibble bench --help' says what is accepted");
    const Settings all = settings_of(*options, settings);
    if (options->preset.empty()) return bench(*options, tests_of(*options), all, command_line(command));
    BenchOptions of_preset = *options;
    if (!is_given(command, *command.get_option("-r"))) of_preset.num_repetitions = kPresetRepetitions;
    return bench_preset(of_preset, all, command_line(command));
  };
}

}  // namespace nibble::cli
