// What `nibble tune` found for this machine, and where it is kept: one JSON file for all machines that share a home, by the name of
// the processor and the number of cores that a process may use.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backend/cpu_tuning.h"
#include "core/settings.h"

namespace nibble {

struct Tuning {
  int num_threads{0};  // 0: one for each usable core
  CpuTuning cpu;

  bool operator==(const Tuning&) const = default;
};
nlohmann::ordered_json to_json(const Tuning& tuning);

std::string machine_name();  // "AMD EPYC 9754, 4 cores"

// --tuning, or $XDG_CACHE_HOME/nibble/tuning.json, or that below ~/.cache; empty: there is no such place, or it is "off".
std::filesystem::path tuning_path(const Settings& settings);

// Nothing: no file, or none of `machine` in it. Throws InputError: a file that nibble tune did not write, or one that --tuning names
// and that is not there.
std::optional<Tuning> read_tuning(const Settings& settings, const std::string& machine);

// Puts it in place of what the file says of this machine; makes the file and its folder. Throws InputError where it can't.
void write_tuning(const std::filesystem::path& path, const std::string& machine, const Tuning& tuning);

}  // namespace nibble
