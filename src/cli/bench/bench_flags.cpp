#include "cli/bench/bench_flags.h"

namespace nibble::cli {

void add_bench_flags(CLI::App& command, Settings& settings, BenchFlags& flags,
                     std::initializer_list<SettingGroup> more_settings) {
  add_value(command, "-r,--repetitions", "N", flags.num_repetitions,
            fmt::format("timed repetitions of each measurement [{}]", flags.num_repetitions))
      ->check(CLI::Range(1, 1000));
  add_value(command, "--warmup", "N", flags.num_warmups,
            fmt::format("untimed repetitions of each measurement before these [{}]", flags.num_warmups))
      ->check(CLI::Range(0, 1000));
  add_value(command, "-b", "N", flags.max_batch_tokens,
            "same as --max-batch-tokens, and takes precedence over it");
  command.add_flag("--json", flags.as_json, "print one JSON object with every sample instead of the table");
  add_value(command, "--record", "FILE", flags.record, "also append the JSON object to FILE");
  add_settings(command, settings,
               {SettingGroup::kMachine, SettingGroup::kDevice, SettingGroup::kGpus, SettingGroup::kPlaces});
  add_settings(command, settings, more_settings);
}

Settings settings_of(const BenchFlags& flags, const Settings& settings) {
  Settings all = settings;
  for (const Setting& setting : setting_table())
    if (flags.max_batch_tokens && setting.name == "max-batch-tokens")
      set(all, setting, *flags.max_batch_tokens, "-b");
  return all;
}

}  // namespace nibble::cli
