#include "setup/model_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/mapped_file.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSynthetic{"synthetic:"};

struct BundledName {
  std::string_view name, folder;
};
constexpr BundledName kBundledNames[] = {{"tiny", "tiny-gpt-oss"}};

// From OpenAI, Apache-2.0. Sizes in messages leave out the copies of the weights in original/ and metal/.
constexpr std::string_view kPublished20b{"openai/gpt-oss-20b"}, kPublished120b{"openai/gpt-oss-120b"};

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

ModelSource find_synthetic(const std::string& argument, const std::string& what) {
  if (std::optional<Config> config = named_config(what)) return {argument, {}, config};
  std::error_code no_such_file;
  if (fs::is_regular_file(what, no_such_file)) return {argument, {}, read_config(what)};
  throw InputError(
      "'{}': no such file '{}'; after 'synthetic:' expected gpt-oss-20b, gpt-oss-120b or the path of a "
      "config.json",
      argument, what);
}

// A repository's folder in the Hugging Face cache, as laid out by huggingface_hub.
fs::path cache_folder(const std::string& repository) {
  fs::path hub;
  if (const auto folder = variable("HF_HUB_CACHE"))
    hub = *folder;
  else if (const auto home = variable("HF_HOME"))
    hub = fs::path(*home) / "hub";
  else
    hub = fs::path(variable("HOME").value_or("")) / ".cache/huggingface/hub";
  std::string name = "models--" + repository;
  name.replace(name.find('/'), 1, "--");
  return hub / name;
}

// Returns the snapshot in refs/main; without it (download by hash, incomplete copy), the newest snapshot.
std::optional<fs::path> cached_snapshot(const std::string& repository, const fs::path& cache) {
  std::error_code error;
  if (fs::is_regular_file(cache / "refs/main", error)) {
    std::string commit = read_text_file(cache / "refs/main");
    commit.erase(commit.find_last_not_of(" \n\r") + 1);
    const fs::path snapshot = cache / "snapshots" / commit;
    return fs::is_directory(snapshot, error) ? std::optional(snapshot) : std::nullopt;
  }
  std::vector<fs::path> snapshots;
  for (const auto& entry : fs::directory_iterator(cache / "snapshots", error))
    if (entry.is_directory(error)) snapshots.push_back(entry.path());
  if (snapshots.empty()) return std::nullopt;
  const auto age = [](const fs::path& folder) {
    std::error_code unknown;
    return std::pair(fs::last_write_time(folder, unknown), folder);
  };
  const fs::path newest = *std::max_element(snapshots.begin(), snapshots.end(),
                                            [&](const auto& a, const auto& b) { return age(a) < age(b); });
  if (snapshots.size() == 1)
    log::info("{}: the cache has no refs/main; using its only snapshot, {}", repository, newest.string());
  else
    log::warn("{}: the cache has no refs/main; using the newest of its {} snapshots, {}", repository,
              snapshots.size(), newest.string());
  return newest;
}

bool is_repository(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && slash > 0 && slash + 1 < text.size() &&
         text.find('/', slash + 1) == std::string_view::npos && text[0] != '.' && text[0] != '~';
}

[[noreturn]] void refuse(const std::string& argument, const std::vector<std::string>& tried) {
  throw InputError(
      "model '{}' not found: looked for {}. Expected a folder, a file, or one of these names: tiny "
      "(bundled); {} (13.8 GB) and {} (65.3 GB, licence Apache-2.0), if in the Hugging Face cache (download "
      "with: hf download {} --exclude '*/*'); synthetic:gpt-oss-20b and synthetic:gpt-oss-120b (random "
      "weights, for measurements)",
      argument, fmt::join(tried, " and "), kPublished20b, kPublished120b,
      argument.ends_with("gpt-oss-120b") ? kPublished120b : kPublished20b);
}

}  // namespace

fs::path ModelSource::folder() const { return fs::is_directory(path) ? path : path.parent_path(); }

ModelSource find_model(const std::string& argument, const Places& places) {
  if (argument.starts_with(kSynthetic)) return find_synthetic(argument, argument.substr(kSynthetic.size()));

  std::error_code no_such_file;
  if (fs::exists(argument, no_such_file)) return {argument, argument, {}};

  std::vector<std::string> tried{(fs::current_path(no_such_file) / argument).string()};
  for (const BundledName& bundled : kBundledNames) {
    if (bundled.name != argument) continue;
    for (const fs::path& models : places.model_folders) {
      const fs::path folder = models / bundled.folder;
      if (fs::is_directory(folder, no_such_file)) return {argument, folder, {}};
      tried.push_back(folder.string());
    }
  }
  if (is_repository(argument)) {
    const fs::path cache = cache_folder(argument);
    if (const auto snapshot = cached_snapshot(argument, cache)) return {argument, *snapshot, {}};
    tried.push_back(cache.string());
  }
  refuse(argument, tried);
}

}  // namespace nibble
