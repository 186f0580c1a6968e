// The flags of all bench commands: model, repetitions, settings, and the file for records.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/measure/record_file.h"
#include "cli/measure/run_record.h"
#include "cli/measure/speed_tests.h"
#include "cli/options.h"

namespace nibble::cli {

inline constexpr int kMaxBenchTokens{1 << 20};  // maximum length of a prompt, an answer, or the KV cache
inline constexpr int kMaxBenchClients{1024};

struct BenchFlags {
  std::string model;
  int num_repetitions{5}, num_warmups{kNumWarmups};
  std::optional<std::string> max_batch_tokens;  // value of -b
  bool as_json{false};
  std::optional<std::string> record;  // file that the record is appended to
};

// Adds the flags that all bench commands share, and those of `more_settings`. Each command adds its
// positional argument MODEL itself (add_model()).
void add_bench_flags(CLI::App& command, Settings& settings, BenchFlags& flags,
                     std::initializer_list<SettingGroup> more_settings = {});

// Applies -b, llama-bench's name for --max-batch-tokens; -b overrides --max-batch-tokens.
Settings settings_of(const BenchFlags& flags, const Settings& settings);

// Calls measure(options, settings, command_line), which returns a table and a record. Prints the table, or
// the record with --json. Appends the record to the file of --record.
template <typename Options, typename Measure>
int print_measurement(const Options& options, const Settings& settings, const std::string& command_line,
                      const Measure& measure) {
  RecordFile file(options.record);
  const RunOutput output = measure(options, settings, command_line);
  file.append(output.record);
  fmt::print("{}", options.as_json ? output.record : output.table);
  return kDone;
}
template <typename Options, typename Measure>
int print_measurement(const Options& options, const Settings& settings, const CLI::App& command,
                      const Measure& measure) {
  return print_measurement(options, settings_of(options, settings), command_line(command), measure);
}

// The commands of bench.
Action define_bench_clients(CLI::App& command, Settings& settings);
Action define_bench_replay(CLI::App& command, Settings& settings);
Action define_bench_acceptance(CLI::App& command, Settings& settings);
Action define_bench_compare(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
