// Reads the last `nibble verify` report of this machine: which kernels and probes passed on its GPU.
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
  std::string commit;  // commit of the program that ran; ends in "-dirty" if it was built from changed files
  std::map<std::string, std::string> kernels;  // row of the kernel table -> result: "ok", "wrong", ...
  std::map<std::string, std::string> probes;   // name of the probe -> result: "ok", "twin", ...
};

// Returns verified-GPU.json in $XDG_STATE_HOME/nibble or ~/.local/state/nibble; empty if neither
// XDG_STATE_HOME nor HOME is set. GPU is the device's UUID, or its name if the UUID is unknown.
std::filesystem::path verified_path(const DeviceFacts& device);

// Returns nullopt if the file is missing. Throws InputError for a file that nibble verify did not write.
std::optional<Verified> read_verified(const std::filesystem::path& path);

// Returns "proven here on 2026-11-22", "wrong here on ..." or "not verified here" for a row of the kernel
// table. `commit`: the commit of this program. Adds " with commit abcdef" if the report is from another
// commit.
std::string proof_of(const std::optional<Verified>& verified, const std::string& row,
                     std::string_view commit);

}  // namespace nibble
