#include "setup/machine/verified.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/errors/error.h"
#include "core/text/json.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path) {
  throw InputError("{}: not a report of nibble verify: delete it, or run nibble verify again", path.string());
}

const Json& member(const Json& json, const char* name, const fs::path& path) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  if (!json.is_object() || found == json.end()) refuse(path);
  return *found;
}
std::string text(const Json& json, const char* name, const fs::path& path) {
  const Json& value = member(json, name, path);
  if (!value.is_string()) refuse(path);
  return value.get<std::string>();
}

// Returns a map with an entry per object of `list`: the object's value of `key` -> its value of "result".
std::map<std::string, std::string> results(const Json& list, const char* key, const fs::path& path) {
  if (!list.is_array()) refuse(path);
  std::map<std::string, std::string> results;
  for (const Json& row : list) results[text(row, key, path)] = text(row, "result", path);
  return results;
}

}  // namespace

fs::path verified_path(const DeviceFacts& device) {
  std::string gpu = device.uuid.value_or(device.name);
  std::ranges::replace_if(
      gpu,
      [](char c) { return !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z'); },
      '-');
  const fs::path file = "nibble/verified-" + gpu + ".json";
  // The XDG specification says to ignore relative paths.
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && fs::path(state).is_absolute())
    return state / file;
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".local/state" / file;
  return {};
}

std::optional<Verified> read_verified(const fs::path& path) {
  std::error_code error;
  if (path.empty() || !fs::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path);
  const Json json =
      Json::parse(std::istreambuf_iterator<char>(file), {}, nullptr, /*allow_exceptions=*/false);
  const Json& build = member(json, "nibble", path);
  const bool is_dirty = build.contains("dirty") && build["dirty"] == true;
  return Verified{.date = text(json, "date", path),
                  .commit = text(build, "commit", path) + (is_dirty ? "-dirty" : ""),
                  .kernels = results(member(json, "kernels", path), "kernel", path),
                  .probes = results(member(json, "probes", path), "probe", path)};
}

std::string proof_of(const std::optional<Verified>& verified, const std::string& row,
                     std::string_view commit) {
  if (!verified || !verified->kernels.contains(row)) return "not verified here";
  const std::string& result = verified->kernels.at(row);
  std::string proof = (result == "ok" ? "proven" : result) + " here on " + verified->date.substr(0, 10);
  // Builds of unknown commits may differ, so "unknown" never counts as the same commit.
  if (verified->commit != commit || commit == "unknown") proof += " with commit " + verified->commit;
  return proof;
}

}  // namespace nibble
