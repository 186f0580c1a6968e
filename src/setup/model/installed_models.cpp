#include "setup/model/installed_models.h"

#include <algorithm>
#include <tuple>

#include "core/errors/error.h"
#include "setup/model/model_source.h"
#include "setup/model/model_stores.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

// Adds the model or models at `path`. A single model gets the name `name`; each of several GGUF files gets
// its path as name.
void add(std::vector<InstalledModel>& models, std::string_view place, const std::string& name,
         const fs::path& path) {
  const std::vector<fs::path> files = model_files(path);
  for (const fs::path& file : files)
    models.push_back({files.size() == 1 ? name : file.string(), place, file});
}

}  // namespace

std::vector<InstalledModel> installed_models(const Places& places) {
  std::vector<InstalledModel> models;
  for (const auto& [name, folder] : bundled_models(places)) add(models, "bundled", name, folder);
  for (const StoredModel& stored : stored_models()) {
    if (stored.fault.empty())
      add(models, stored.place, stored.name, stored.path);
    else
      models.push_back({stored.name, stored.place, {}, stored.fault});
  }
  std::ranges::stable_sort(models, [](const InstalledModel& a, const InstalledModel& b) {
    return std::tie(a.place, a.name) < std::tie(b.place, b.name);
  });
  return models;
}

std::vector<InstalledModel> models_in(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw InputError("{}: is not a folder", folder.string());
  std::vector<fs::path> folders{folder};
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error)) folders.push_back(entry.path());
  std::vector<InstalledModel> models;
  for (const fs::path& path : folders)
    for (const fs::path& file : model_files(path, /*looks_below=*/false))
      models.push_back({file.string(), "folder", file});
  std::ranges::sort(models, {}, &InstalledModel::name);
  return models;
}

size_t file_bytes(const fs::path& path) {
  std::error_code error;
  size_t bytes = 0;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path folder = is_folder ? path : path.parent_path();
  const std::string name = path.filename().string();
  const size_t part = name.find("-00001-of-");
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    const bool belongs = is_folder
                             ? entry.path().extension() == ".safetensors"
                             : file == name || (part != std::string::npos && file.size() == name.size() &&
                                                file.starts_with(name.substr(0, part)) &&
                                                file.ends_with(name.substr(part + 6)));
    if (!belongs) continue;
    const uintmax_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

}  // namespace nibble
