#include "setup/model_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/mapped_file.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSynthetic{"synthetic:"};

struct BundledName {
  std::string_view name, folder;
};
constexpr BundledName kBundledNames[] = {{"tiny", "tiny-gpt-oss"}};

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

ModelSource find_synthetic(const std::string& argument, const std::string& what) {
  if (std::optional<Config> config = named_config(what)) return {argument, {}, config};
  std::error_code no_such_file;
  if (fs::is_regular_file(what, no_such_file)) return {argument, {}, read_config(what)};
  throw InputError(
      "'{}': '{}' is no file here; accepted after 'synthetic:' are gpt-oss-20b, gpt-oss-120b and the path of "
      "a config.json",
      argument, what);
}

// The folder of "openai/gpt-oss-20b" in the Hugging Face cache, in huggingface_hub's layout: refs/main in it holds the name of
// the snapshot.
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

std::optional<fs::path> cached_snapshot(const fs::path& cache) {
  std::error_code no_such_file;
  if (!fs::is_regular_file(cache / "refs/main", no_such_file)) return std::nullopt;
  std::string commit = read_text_file(cache / "refs/main");
  commit.erase(commit.find_last_not_of(" \n\r") + 1);
  const fs::path snapshot = cache / "snapshots" / commit;
  return fs::is_directory(snapshot, no_such_file) ? std::optional(snapshot) : std::nullopt;
}

bool is_repository(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && slash > 0 && slash + 1 < text.size() &&
         text.find('/', slash + 1) == std::string_view::npos && text[0] != '.' && text[0] != '~';
}

}  // namespace

fs::path ModelSource::folder() const { return fs::is_directory(path) ? path : path.parent_path(); }

ModelSource find_model(const std::string& argument, const Places& places) {
  if (argument.starts_with(kSynthetic)) return find_synthetic(argument, argument.substr(kSynthetic.size()));

  std::error_code no_such_file;
  if (fs::exists(argument, no_such_file)) return {argument, argument, {}};

  std::vector<std::string> tried{"the file or folder of that name"};
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
    if (const auto snapshot = cached_snapshot(cache)) return {argument, *snapshot, {}};
    tried.push_back(cache.string());
  }
  throw InputError(
      "no model '{}': tried {}. Accepted: a folder, a file, a bundled name (tiny), a Hugging Face cache "
      "entry (openai/gpt-oss-20b; nibble downloads nothing), synthetic:gpt-oss-20b",
      argument, fmt::join(tried, ", "));
}

}  // namespace nibble
