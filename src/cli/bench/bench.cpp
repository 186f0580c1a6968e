#include "cli/bench/bench.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/acceptance.h"
#include "cli/bench/clients.h"
#include "cli/bench/compare.h"
#include "cli/bench/replay.h"
#include "cli/bench/report.h"
#include "cli/bench/table.h"
#include "cli/bench_serve/bench_serve.h"
#include "cli/measure/number_list.h"
#include "cli/measure/record_file.h"
#include "cli/measure/speed_tests.h"
#include "core/error.h"
#include "core/thread_pool.h"
#include "setup/load.h"
#include "setup/machine.h"
#include "setup/tuning.h"

namespace nibble::cli {
namespace {

constexpr const char* kBenchFooter{R"(
The tests are named as llama-bench names them: pp512 is the prefill of a prompt of 512 tokens, tg128 the decoding of 128
tokens one by one, "@ d4096" says that 4,096 tokens were in the KV cache before. Each runs once to warm up, then -r times,
straight on the backend: one sequence, random tokens that are the same every time, the likeliest token chosen. The cache
is filled in order of depth.

GB/s is what weights and KV cache make a step read at least, each byte once (experts of a prefill: as many as independent
uniform routing would hit); share is its share of the bandwidth that all cores together measure at the start. A note stands
where repetitions differ by more than a tenth (noisy) or are equal in five digits (suspiciously equal), where the weights
fit into the caches, so that the share says nothing of the memory (in caches), and where they don't and it is over 100 %.
Below the table stands what contradicts itself: a share over 100 %, more tokens in less time, a test that is faster the
more is in the KV cache. Several lengths and several depths make a grid: a row for each depth, medians in the cells.

--compare measures nothing: it reads two files of what --record appended, one line a run, and says for each test whether
B differs from A beyond the noise: where the rank test of Mann and Whitney over all repetitions of a file finds a chance
below 5 %, and the medians are 1 % apart or more. Best are several runs of A and B in turns. Files that are not the same
work (model, formats, backend, tests) are refused; what else differs is said.

--replay runs requests of a file through an engine, as they stand there, without drafts and with those of --speculate in
turns, and says how fast each was and which drafts were right; the answers must be the same. A line of the file is
{"prompt": TEXT}, with "prediction", "temperature", "seed", "max_tokens", "reasoning" and "raw" where they are wanted.

--clients runs requests of -p random tokens, which give -n each, through an engine, so many at once, 4 for each client one
behind the other: what a server would give without HTTP. bench serve with the same lengths says what it gives with it.
On a GPU the table has how long that was idle between two steps of decoding, by its own clock.

--acceptance says what drafts would give that are right with given chances: 0.7,0.5,0.3 for the first three of a sequence,
or one number for all. It times steps of 1 to 16 rows of a sequence, beside what their bytes say, and decodes -n tokens
(512 where it is not given) with no drafts, with 1, 3 and 5 in each step, and with as many as --speculate auto takes. Which
are right is drawn, for all of them alike, anew in each repetition, the same way every time. So synthetic weights show when
drafts pay. It may be given several times.

Examples:
  nibble bench synthetic:gpt-oss-20b -p 512,2048 -n 32,128
  nibble bench openai/gpt-oss-20b -p 0 -n 128 -d 0,4096,16384 -r 10
  nibble bench tiny --threads 1 --record A.jsonl
  nibble bench --compare A.jsonl B.jsonl
  nibble bench synthetic:gpt-oss-120b --tokenizer bytes --clients 1,16,64 -p 1024 -n 256
  nibble bench tiny --speculate auto --replay requests.jsonl
  nibble bench synthetic:gpt-oss-20b --acceptance 0.7,0.5,0.3 --acceptance 0.9
  nibble bench serve http://127.0.0.1:8080 --clients 1,4,16   # a server)"};

constexpr int kMaxTokens{1 << 20}, kMaxClients{1024};

struct BenchOptions {
  std::string model;
  std::vector<std::string> prompt_lengths{"512"}, output_lengths{"128"}, depths{"0"};
  int num_repetitions{5};
  std::optional<std::string> max_batch_tokens;
  bool as_json{false}, as_csv{false};
  std::optional<std::string> record;     // --record: file that the record is appended to
  std::vector<std::string> compared;     // --compare: two files; empty: measure
  std::optional<std::string> replayed;   // --replay: a file of requests
  std::vector<std::string> num_clients;  // --clients
  std::vector<std::string> acceptance;   // --acceptance: profiles (AcceptanceOptions::profiles)
};

std::vector<BenchTest> tests_of(const BenchOptions& options) {
  const std::vector<int> prompt_lengths = read_numbers(options.prompt_lengths, "-p", 0, kMaxTokens);
  const std::vector<int> output_lengths = read_numbers(options.output_lengths, "-n", 0, kMaxTokens);
  std::vector<BenchTest> tests =
      list_tests(prompt_lengths, output_lengths, read_numbers(options.depths, "-d", 0, kMaxTokens));
  if (tests.empty()) throw InputError("-p 0 and -n 0 leave nothing to measure");
  return tests;
}

// -b is llama-bench's name for --max-batch-tokens. If both are given, -b wins.
Settings with_batch(Settings settings, const std::optional<std::string>& max_batch_tokens) {
  for (const Setting& setting : setting_table())
    if (max_batch_tokens && setting.name == "max-batch-tokens")
      set(settings, setting, *max_batch_tokens, "-b");
  return settings;
}

int bench(const BenchOptions& options, const Settings& settings, const std::string& command_line) {
  const std::vector<BenchTest> tests = tests_of(options);
  RecordFile record(options.record);
  const std::string began = utc_now();
  const ResolvedSettings resolved = resolve(settings);
  const BackendRow& row = *resolved.backend;
  const Model model = open_model(options.model, resolved.places);
  const BackendOptions room = room_for(tests, model.config, resolved);
  const auto device = [&] { return row.device ? std::optional(row.device()) : std::nullopt; };
  // Measure this before the weights are loaded, because it allocates memory of its own.
  const double read_bandwidth = row.read_bandwidth(resolved.own);
  const std::unique_ptr<Backend> backend = load(model, resolved, room);

  BenchSetup setup{.record = {.date = began,
                              .command_line = command_line,
                              .machine = describe_machine(device()),
                              .kernels = backend->kernels(),
                              .num_warmups = kNumWarmups},
                   .model = model.source.name,
                   .weight_bytes = weight_bytes(model.config),
                   .num_parameters = count_parameters(model.config).total,
                   .backend = std::string(backend->name()),
                   .num_threads = room.num_threads > 0 ? room.num_threads : num_usable_cores(),
                   .max_batch_tokens = room.max_batch_tokens,
                   .num_repetitions = options.num_repetitions,
                   .read_bandwidth = read_bandwidth,
                   .tuning = resolved.tuning,
                   .counters = {}};
  std::vector<BenchResult> results;
  BenchTable table(setup, tests);
  if (!options.as_json) fmt::print("{}", options.as_csv ? csv_header() : table.head());
  run_tests(*backend, room, formats_of(model, resolved), tests, options.num_repetitions,
            [&](const BenchResult& result) {
              results.push_back(result);
              if (options.as_json) return;
              fmt::print("{}", options.as_csv ? csv_row(setup, result) : table.add(result));
              std::fflush(stdout);  // the next test may take minutes
            });
  // Right after the work: clocks and temperature are still those under load.
  setup.record.machine.device = device();
  setup.counters = backend->counters();
  const std::string line = record_line(bench_json(setup, results));
  record.append(line);
  if (options.as_json)
    fmt::print("{}", line);
  else if (!options.as_csv)
    fmt::print("{}{}", table.notes(), markdown_footer(setup));
  return kDone;
}

int compare(const CLI::App& command, const std::vector<std::string>& files) {
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && option->get_name() != "--compare")
      throw InputError("--compare measures nothing: leave {} out",
                       option->get_positional() ? "MODEL" : option->get_name());
  const Runs a = read_runs(files[0]), b = read_runs(files[1]);
  fmt::print("{}", compare_runs(files[0], a, files[1], b));
  return kDone;
}

}  // namespace

Action define_bench(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<BenchOptions>();
  add_model(command, options->model)->required(false);  // `bench serve` and --compare take no MODEL
  add_numbers(command, "-p,--prompt-lengths", options->prompt_lengths,
              "tokens of the prompts to prefill; 0: none");
  add_numbers(command, "-n,--output-lengths", options->output_lengths, "tokens to decode; 0: none");
  auto* depths = add_numbers(command, "-d,--depths", options->depths,
                             "tokens in the KV cache before those that are timed");
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
  add_settings(command, settings,
               {SettingGroup::kMachine, SettingGroup::kDrafts, SettingGroup::kDevice, SettingGroup::kGpus,
                SettingGroup::kPlaces});
  auto* replayed =
      command.add_option("--replay", options->replayed, "run the requests of FILE with drafts and without");
  replayed->type_name("FILE");
  auto* clients = add_numbers(command, "--clients", options->num_clients,
                              "requests that run at once in an engine, a load each; one with --replay")
                      ->excludes(depths);
  command
      .add_option("--acceptance", options->acceptance,
                  "decode as if the draft at each place were right with these chances")
      ->type_name("LIST")
      ->take_all()
      ->excludes(replayed)
      ->excludes(clients);
  command
      .add_option("--record", options->record, "append what --json prints to a file, beside what is printed")
      ->type_name("FILE");
  command
      .add_option("--compare", options->compared,
                  "two files of records: say which differences are beyond the noise")
      ->expected(2)
      ->type_name("A B");
  command.footer(kBenchFooter);
  const Action serve = define_bench_serve(command);
  return [options, serve, &settings, &command] {
    if (!command.get_subcommands().empty()) return serve();
    if (!options->compared.empty()) return compare(command, options->compared);
    if (options->model.empty())
      throw InputError("MODEL is required; 'nibble bench --help' says what is accepted");
    const auto one = [](const std::vector<std::string>& values, const char* flag, int least,
                        const char* with) {
      const std::vector<int> numbers = read_numbers(values, flag, least, kMaxTokens);
      if (numbers.size() != 1) throw InputError("{}: {} takes one number", flag, with);
      return numbers[0];
    };
    const auto print = [&](const auto& run) {
      if (options->as_csv) throw InputError("--csv is for prompts and decoding of one sequence");
      RecordFile file(options->record);
      const RunOutput output = run(with_batch(settings, options->max_batch_tokens), command_line(command));
      file.append(output.record);
      fmt::print("{}", options->as_json ? output.record : output.table);
      return kDone;
    };
    const std::vector<int> num_clients = read_numbers(options->num_clients, "--clients", 1, kMaxClients);
    if (options->replayed) {
      if (num_clients.size() > 1) throw InputError("--clients: --replay takes one number");
      return print([&](const Settings& all, const std::string& line) {
        return replay({.model = options->model,
                       .file = *options->replayed,
                       .num_clients = num_clients.empty() ? 1 : num_clients[0],
                       .num_repetitions = options->num_repetitions},
                      all, line);
      });
    }
    if (!options->acceptance.empty())
      return print([&](const Settings& all, const std::string& line) {
        AcceptanceOptions asked{.model = options->model,
                                .profiles = options->acceptance,
                                .depth = one(options->depths, "-d", 0, "--acceptance"),
                                .num_repetitions = options->num_repetitions};
        if (command.count("-n") > 0) asked.num_tokens = one(options->output_lengths, "-n", 1, "--acceptance");
        return bench_acceptance(asked, all, line);
      });
    if (!num_clients.empty())
      return print([&](const Settings& all, const std::string& line) {
        return bench_clients({.model = options->model,
                              .num_clients = num_clients,
                              .num_prompt_tokens = one(options->prompt_lengths, "-p", 1, "--clients"),
                              .num_output_tokens = one(options->output_lengths, "-n", 2, "--clients"),
                              .num_repetitions = options->num_repetitions},
                             all, line);
      });
    if (settings.speculate || settings.speculative_config)
      throw InputError(
          "--speculate: random tokens can't be drafted; give texts with --replay FILE, or chances with "
          "--acceptance");
    return bench(*options, with_batch(settings, options->max_batch_tokens), command_line(command));
  };
}

}  // namespace nibble::cli
