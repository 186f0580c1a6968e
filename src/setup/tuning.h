// The file of `nibble tune`: JSON keyed by CPU name and cores, for all machines that share a home folder.
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

// Path of --tuning, or nibble/tuning.json in $XDG_CACHE_HOME or ~/.cache. Empty for "off" or without these.
std::filesystem::path tuning_path(const Settings& settings);

// Returns nullopt if the file or the entry of `machine` is missing. Throws InputError for a file that nibble
// tune did not write, or if --tuning names a file that does not exist.
std::optional<Tuning> read_tuning(const Settings& settings, const std::string& machine);

// Replaces the entry of `machine`; creates the file and its folder. Throws InputError if writing fails.
void write_tuning(const std::filesystem::path& path, const std::string& machine, const Tuning& tuning);

}  // namespace nibble
