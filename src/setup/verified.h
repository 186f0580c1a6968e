// The report that `nibble verify` leaves behind tells what is known of this machine's GPU since it ran there last.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "backend/device_facts.h"

namespace nibble {

struct Verified {
  std::string date;    // "2026-11-22T02:36:02Z"
  std::string commit;  // of the program that ran; ends in "-dirty" where its files had been changed since
  std::map<std::string, std::string>
      kernels;                                // a row of the kernel table, and its result: "ok", "wrong", ...
  std::map<std::string, std::string> probes;  // likewise: "ok", "twin", ...
};

// $XDG_STATE_HOME/nibble/verified-GPU.json, else that in ~/.local/state. GPU is the device's UUID, or its name where it does not tell one.
// Empty where neither variable is set.
std::filesystem::path verified_path(const DeviceFacts& device);

// Returns nothing where there is no such file. Throws InputError for a file that nibble verify did not write.
std::optional<Verified> read_verified(const std::filesystem::path& path);

// Says what is known of a row of the kernel table on this machine: "proven here on 2026-11-22", "wrong here on ...", "not verified here".
// Kernels may have changed since another commit was verified, so its results are named as that commit's:
// "proven here on 2026-11-22 with commit abcdef". `commit` is this program's.
std::string proof_of(const std::optional<Verified>& verified, const std::string& row,
                     std::string_view commit);

}  // namespace nibble
