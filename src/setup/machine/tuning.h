// The file of `nibble tune`: JSON, with an entry per CPU name and core count, and per GPU and driver, so that
// machines can share it. An entry names the build of nibble that measured it, and has settings for each
// model's widths and formats.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_options.h"
#include "backend/device_facts.h"
#include "backend/tuned_steps.h"
#include "core/program/settings.h"
#include "core/text/json.h"

namespace nibble {

struct Tuning {
  int num_threads{0};  // 0: one per usable core
  cpu::CpuTuning cpu{};
  // Set if a GPU was tuned; `num_threads` and `cpu` then have their defaults.
  std::optional<std::vector<TunedSteps>> gpu_steps{};

  bool operator==(const Tuning&) const = default;
};
Json to_json(const Tuning& tuning);

std::string machine_name();                        // "AMD EPYC 9754, 4 cores"
std::string machine_name(const DeviceFacts& gpu);  // "NVIDIA GB10, 48 multiprocessors, driver 580.95"

struct TunedMachine {
  std::string name;   // machine_name()
  std::string build;  // Settings::build: version and commit of the program that measures
};
inline constexpr int kMostTunedRows{8192};  // maximum rows of a step on a GPU

using Tunings = std::map<std::string, Tuning>;  // key: tuned_model() (setup/settings/resolved_settings.h)

// Returns the path of --tuning, or nibble/tuning.json in $XDG_CACHE_HOME or ~/.cache. Empty with --tuning
// off, or if neither XDG_CACHE_HOME nor HOME is set.
std::filesystem::path tuning_path(const Settings& settings);

// Returns no settings if the file or the machine's entry is missing, or if another build, whose kernels may
// differ, measured the entry (logged). Throws InputError for a file that nibble tune did not write, or if
// --tuning names a missing file.
Tunings read_tunings(const Settings& settings, const TunedMachine& machine);

// Creates the folder of the file. Throws InputError if a file cannot be written there: measuring takes
// minutes, and its result must not be lost. No effect if `path` is empty.
void prepare_tuning_file(const std::filesystem::path& path);

// Replaces the settings for `model`, and drops settings of this machine that another build measured. Creates
// the file and its folder. Throws InputError if writing fails.
void write_tuning(const std::filesystem::path& path, const TunedMachine& machine, const std::string& model,
                  const Tuning& tuning);

}  // namespace nibble
