// The file in which `nibble tune` stores its results: one JSON object for all machines that share a home
// folder. A key is the name of a CPU with the number of cores that a process may use.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "backend/cpu/cpu_options.h"
#include "core/json.h"
#include "core/settings.h"

namespace nibble {

struct Tuning {
  int num_threads{0};  // 0: one per usable core
  cpu::CpuTuning cpu;

  bool operator==(const Tuning&) const = default;
};
nlohmann::ordered_json to_json(const Tuning& tuning);

std::string machine_name();  // "AMD EPYC 9754, 4 cores"

// Returns --tuning, else $XDG_CACHE_HOME/nibble/tuning.json, else ~/.cache/nibble/tuning.json. Empty if
// --tuning is "off", or if none of these is set.
std::filesystem::path tuning_path(const Settings& settings);

// Returns nullopt if the file does not exist or has no entry for `machine`. Throws InputError for a file that
// nibble tune did not write, and if --tuning names a file that does not exist.
std::optional<Tuning> read_tuning(const Settings& settings, const std::string& machine);

// Replaces the entry of `machine`; creates the file and its folder. Throws InputError if
// the file cannot be written.
void write_tuning(const std::filesystem::path& path, const std::string& machine, const Tuning& tuning);

}  // namespace nibble
