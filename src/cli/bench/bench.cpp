#include "cli/bench/bench.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/report.h"
#include "cli/bench_serve/bench_serve.h"
#include "cli/measure/number_list.h"
#include "cli/measure/speed_tests.h"
#include "core/error.h"
#include "core/thread_pool.h"
#include "setup/load.h"
#include "setup/machine.h"
#include "setup/tuning.h"

namespace nibble::cli {
namespace {

constexpr const char* kFooter{R"(
The tests are named as llama-bench names them: pp512 is the prefill of a prompt of 512 tokens, tg128 the decoding of 128
tokens one by one, "@ d4096" says that 4,096 tokens were in the KV cache before. Each runs once to warm up, then -r times,
straight on the backend: one sequence, random tokens that are the same every time, the likeliest token chosen. The cache
is filled in order of depth.

GB/s is what weights and KV cache make a step read at least, each byte once (experts of a prefill: as many as independent
uniform routing would hit); share is its share of the bandwidth that all cores together measure at the start. Where the
weights fit into the caches it may be over 100 %. A note stands where repetitions differ by more than a tenth (noisy) or
are equal in four digits (suspiciously equal).

Examples:
  nibble bench synthetic:gpt-oss-20b -p 512,2048 -n 32,128
  nibble bench openai/gpt-oss-20b -p 0 -n 128 -d 0,4096,16384 -r 10
  nibble bench tiny --threads 1 --json
  nibble bench serve http://127.0.0.1:8080 --clients 1,4,16   # of a server: nibble bench serve --help)"};

constexpr int kMaxTokens{1 << 20};

struct Options {
  std::string model;
  std::vector<std::string> prompt_lengths{"512"}, output_lengths{"128"}, depths{"0"};
  int num_repetitions{5};
  std::optional<std::string> max_batch_tokens;
  bool as_json{false}, as_csv{false};
};

std::vector<BenchTest> tests_of(const Options& options) {
  const std::vector<int> prompt_lengths = read_numbers(options.prompt_lengths, "-p", 0, kMaxTokens);
  const std::vector<int> output_lengths = read_numbers(options.output_lengths, "-n", 0, kMaxTokens);
  std::vector<BenchTest> tests =
      list_tests(prompt_lengths, output_lengths, read_numbers(options.depths, "-d", 0, kMaxTokens));
  if (tests.empty()) throw InputError("-p 0 and -n 0 leave nothing to measure");
  return tests;
}

// -b is llama-bench's name for a setting; the same is accepted, and it wins.
Settings with_batch(Settings settings, const std::optional<std::string>& max_batch_tokens) {
  for (const Setting& setting : setting_table())
    if (max_batch_tokens && setting.name == "max-batch-tokens")
      set(settings, setting, *max_batch_tokens, "-b");
  return settings;
}

int bench(const Options& options, const Settings& settings, const std::string& command_line) {
  const std::vector<BenchTest> tests = tests_of(options);
  const ResolvedSettings resolved = resolve(settings);
  const BackendRow& row = *resolved.backend;
  const Model model = open_model(options.model, resolved.places);
  const BackendOptions room = room_for(tests, model.config, resolved);
  // Before the weights are there: it takes memory of its own.
  const double read_bandwidth = row.read_bandwidth();
  const std::unique_ptr<Backend> backend = load(model, resolved, room);

  BenchSetup setup{.command_line = command_line,
                   .model = model.source.name,
                   .weight_bytes = weight_bytes(model.config),
                   .num_parameters = count_parameters(model.config).total,
                   .backend = std::string(backend->name()),
                   .num_threads = room.num_threads > 0 ? room.num_threads : num_usable_cores(),
                   .max_batch_tokens = room.max_batch_tokens,
                   .num_repetitions = options.num_repetitions,
                   .cpu = cpu_name(),
                   .device = row.device(),
                   .num_cores = num_usable_cores(),
                   .read_bandwidth = read_bandwidth,
                   .tuning = resolved.tuning,
                   .kernels = backend->kernels(),
                   .counters = {}};
  std::vector<BenchResult> results;
  if (!options.as_json) fmt::print("{}", options.as_csv ? csv_header() : markdown_header());
  run_tests(*backend, room, formats_of(model, resolved), tests, options.num_repetitions,
            [&](const BenchResult& result) {
              results.push_back(result);
              if (options.as_json) return;
              fmt::print("{}", options.as_csv ? csv_row(setup, result) : markdown_row(setup, result));
              std::fflush(stdout);  // the next one may take minutes
            });
  setup.counters = backend->counters();
  if (options.as_json)
    fmt::print(
        "{}\n",
        bench_json(setup, results).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  else if (!options.as_csv)
    fmt::print("{}", markdown_footer(setup));
  return kDone;
}

}  // namespace

Action define_bench(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<Options>();
  add_model(command, options->model)->required(false);  // `serve` needs none
  const auto add_numbers = [&](const char* flag, std::vector<std::string>& numbers, const char* what) {
    command.add_option(flag, numbers, fmt::format("{} [{}]", what, numbers.front()))
        ->type_name("N,N...")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add_numbers("-p,--prompt-lengths", options->prompt_lengths, "tokens of the prompts to prefill; 0: none");
  add_numbers("-n,--output-lengths", options->output_lengths, "tokens to decode; 0: none");
  add_numbers("-d,--depths", options->depths, "tokens in the KV cache before those that are timed");
  command
      .add_option("-r,--repetitions", options->num_repetitions,
                  fmt::format("how often each test is timed [{}]", options->num_repetitions))
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  command.add_option("-b", options->max_batch_tokens, "short for --max-batch-tokens, and wins over it")
      ->type_name("N");
  auto* json = command.add_flag("--json", options->as_json,
                                "one JSON object with every sample, in place of the table");
  command.add_flag("--csv", options->as_csv, "the table as CSV")->excludes(json);
  add_settings(command, settings, {SettingGroup::kMachine, SettingGroup::kPlaces});
  command.footer(kFooter);
  const Action serve = define_bench_serve(command);
  return [options, serve, &settings, &command] {
    if (!command.get_subcommands().empty()) return serve();
    if (options->model.empty())
      throw InputError("MODEL is required; 'nibble bench --help' says what is accepted");
    return bench(*options, with_batch(settings, options->max_batch_tokens), command_line(command));
  };
}

}  // namespace nibble::cli
