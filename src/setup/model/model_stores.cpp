#include "setup/model/model_stores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/program/log.h"
#include "formats/ollama_manifest.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

fs::path home() { return variable("HOME").value_or(""); }

// Expands $NAME, ${NAME} and a leading ~, as huggingface_hub does (Python's expandvars and expanduser):
// values from systemd, Docker or .env files did not pass through a shell. Unset variables stay as they are.
std::string expanded(std::string_view text) {
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string result;
  if (text == "~" || text.starts_with("~/")) {
    result = home().string();
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const bool has_braces = text.starts_with("${");
    const size_t begin = has_braces ? 2 : 1;
    size_t end = begin;
    while (text[0] == '$' && end < text.size() && is_name(text[end])) ++end;
    const bool is_closed = !has_braces || (end < text.size() && text[end] == '}');
    const auto value = text[0] == '$' && end > begin && is_closed
                           ? variable(std::string(text.substr(begin, end - begin)))
                           : std::nullopt;
    const size_t taken = value ? end + (has_braces ? 1 : 0) : 1;
    result += value ? *value : std::string(text.substr(0, 1));
    text.remove_prefix(taken);
  }
  return result;
}

std::optional<fs::path> folder_variable(const std::string& name) {
  const auto value = variable(name);
  return value ? std::optional<fs::path>(expanded(*value)) : std::nullopt;
}

fs::path user_cache() { return folder_variable("XDG_CACHE_HOME").value_or(home() / ".cache"); }

fs::path hugging_face_hub() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const auto folder = folder_variable(name)) return *folder;
  return folder_variable("HF_HOME").value_or(user_cache() / "huggingface") / "hub";
}

std::vector<fs::path> lm_studio_stores() {
  return {home() / ".lmstudio/models", user_cache() / "lm-studio/models"};
}

// Host and owner of Ollama's models whose names state neither.
constexpr const char *kOllamaHost{"registry.ollama.ai"}, *kOllamaOwner{"library"};

std::vector<fs::path> ollama_stores() {
  if (const auto named = folder_variable("OLLAMA_MODELS")) return {*named};
  // The second is the home of the user that Ollama's service runs as.
  return {home() / ".ollama/models", "/usr/share/ollama/.ollama/models"};
}

// Splits at slashes. Empty if a part is empty or would lead to another folder.
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= name.size();) {
    const size_t slash = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, slash - at);
    if (part.empty() || part[0] == '.' || part[0] == '~') return {};
    parts.emplace_back(part);
    at = slash + 1;
  }
  return parts;
}

bool is_folder(const fs::path& path) {
  std::error_code no_such_folder;
  return fs::is_directory(path, no_such_folder);
}

bool is_file(const fs::path& path) {
  std::error_code no_such_file;
  return fs::is_regular_file(path, no_such_file);
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error)) folders.push_back(entry.path());
  return folders;
}

std::string commit_in(const fs::path& ref) {
  std::string commit = read_text_file(ref, 4096);
  commit.erase(commit.find_last_not_of(" \n\r") + 1);
  return commit;
}

// Returns the newest snapshot. The cache has no refs/main if the model was downloaded by its commit's hash,
// or if the cache was copied incompletely.
std::optional<fs::path> newest_snapshot(const std::string& repository, const fs::path& cache) {
  const std::vector<fs::path> snapshots = folders_in(cache / "snapshots");
  if (snapshots.empty()) return std::nullopt;
  const auto age = [](const fs::path& folder) {
    std::error_code unknown;
    return std::pair(fs::last_write_time(folder, unknown), folder);
  };
  const fs::path newest =
      *std::ranges::max_element(snapshots, [&](const auto& a, const auto& b) { return age(a) < age(b); });
  if (snapshots.size() == 1)
    log::info("{}: the cache has no refs/main; using its only snapshot, {}", repository, newest.string());
  else
    log::warn("{}: the cache has no refs/main; using the newest of its {} snapshots, {}", repository,
              snapshots.size(), newest.string());
  return newest;
}

std::optional<fs::path> snapshot_of(const std::string& revision, const fs::path& cache) {
  const fs::path ref = cache / "refs" / revision;
  if (is_file(ref)) {
    const std::string commit = commit_in(ref);
    const fs::path snapshot = cache / "snapshots" / commit;
    return !commit.empty() && is_folder(snapshot) ? std::optional(snapshot) : std::nullopt;
  }
  std::vector<fs::path> found;
  for (const fs::path& snapshot : folders_in(cache / "snapshots")) {
    if (snapshot.filename() == revision) return snapshot;
    constexpr size_t kShortestHash{7};
    if (revision.size() >= kShortestHash && snapshot.filename().string().starts_with(revision))
      found.push_back(snapshot);
  }
  return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
}

// Whether a file is part 2, 3, ... of a split model, NAME-00002-of-00003.gguf.
bool is_later_part(const std::string& name) {
  constexpr std::string_view kSuffix{"-00001-of-00001.gguf"};
  if (name.size() <= kSuffix.size()) return false;
  const std::string_view suffix = std::string_view(name).substr(name.size() - kSuffix.size());
  for (size_t i = 0; i < kSuffix.size(); ++i)
    if (kSuffix[i] == '0' || kSuffix[i] == '1' ? suffix[i] < '0' || suffix[i] > '9' : suffix[i] != kSuffix[i])
      return false;
  return suffix.substr(1, 5) != "00001";
}

}  // namespace

std::string with_reason(const fs::path& path, std::error_code why) {
  return why ? fmt::format("{} ({})", path.string(), why.message()) : path.string();
}

std::optional<fs::path> find_in_hugging_face(const std::string& name, Tried& tried) {
  const size_t at = name.find('@', std::min(name.find('/'), name.size()));
  const std::string repository = name.substr(0, at);
  const std::vector<std::string> parts = parts_of(repository);
  if (parts.size() != 2) return std::nullopt;
  const fs::path cache = hugging_face_hub() / fmt::format("models--{}--{}", parts[0], parts[1]);
  std::optional<fs::path> snapshot;
  if (at != std::string::npos) {
    const std::string revision = name.substr(at + 1);
    if (!parts_of(revision).empty()) snapshot = snapshot_of(revision, cache);
  } else if (is_file(cache / "refs/main")) {
    snapshot = snapshot_of("main", cache);
  } else {
    snapshot = newest_snapshot(repository, cache);
  }
  if (!snapshot)
    tried.push_back(at == std::string::npos ? cache.string()
                                            : fmt::format("{} (refs and snapshots)", cache.string()));
  return snapshot;
}

std::optional<fs::path> find_in_lm_studio(const std::string& name, Tried&) {
  const std::vector<std::string> parts = parts_of(name);
  if (parts.size() != 2) return std::nullopt;
  for (const fs::path& models : lm_studio_stores())
    if (const fs::path folder = models / parts[0] / parts[1]; is_folder(folder)) return folder;
  return std::nullopt;
}

std::optional<fs::path> find_in_ollama(const std::string& name, Tried& tried) {
  const size_t slash = name.rfind('/'), colon = name.find(':', slash == std::string::npos ? 0 : slash);
  const std::string tag = colon == std::string::npos ? "latest" : name.substr(colon + 1);
  std::vector<std::string> parts = parts_of(name.substr(0, colon));
  if (parts.empty() || parts.size() > 3 || parts_of(tag).size() != 1) return std::nullopt;
  if (parts.size() == 1) parts.insert(parts.begin(), kOllamaOwner);
  if (parts.size() == 2) parts.insert(parts.begin(), kOllamaHost);
  for (const fs::path& store : ollama_stores()) {
    const fs::path manifest = store / "manifests" / parts[0] / parts[1] / parts[2] / tag;
    if (is_file(manifest))
      return store / "blobs" / ollama_model_blob(read_text_file(manifest, 1 << 20), manifest);
    if (colon != std::string::npos) tried.push_back(manifest.string());
  }
  return std::nullopt;
}

std::vector<fs::path> model_files(const fs::path& path, bool looks_below) {
  if (!is_folder(path)) return {path};
  std::vector<fs::path> files;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(path, error);
       entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (error) break;
    if (entry.depth() > 0 || !looks_below) entry.disable_recursion_pending();
    const fs::path& file = entry->path();
    if (file.extension() == ".safetensors" && entry.depth() == 0) return {path};
    if (file.extension() == ".gguf" && is_file(file) && !is_later_part(file.filename().string()))
      files.push_back(file);
  }
  std::ranges::sort(files);
  return files;
}

fs::path only_gguf_in(const fs::path& path) {
  const std::vector<fs::path> files = model_files(path);
  if (files.empty()) return path;
  if (files.size() == 1) return files[0];
  std::error_code error;
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(fs::relative(file, path, error).string());
  throw InputError("{}: has {} models; give the path of one: {}", path.string(), files.size(),
                   fmt::join(names, ", "));
}

namespace {

void list_hugging_face(std::vector<StoredModel>& models) {
  constexpr std::string_view kPrefix{"models--"}, kSeparator{"--"};
  for (const fs::path& folder : folders_in(hugging_face_hub())) {
    const std::string entry = folder.filename().string();
    const size_t end = entry.find(kSeparator, kPrefix.size());
    if (!entry.starts_with(kPrefix) || end == std::string::npos) continue;
    const std::string name =
        entry.substr(kPrefix.size(), end - kPrefix.size()) + "/" + entry.substr(end + kSeparator.size());
    Tried tried;
    if (const auto path = find_in_hugging_face(name, tried)) models.push_back({name, "Hugging Face", *path});
  }
}

void list_lm_studio(std::vector<StoredModel>& models) {
  for (const fs::path& store : lm_studio_stores())
    for (const fs::path& owner : folders_in(store))
      for (const fs::path& folder : folders_in(owner))
        models.push_back({owner.filename().string() + "/" + folder.filename().string(), "LM Studio", folder});
}

// Returns the shortest name by which find_in_ollama() finds the manifest at HOST/OWNER/NAME/TAG.
std::string ollama_name(const fs::path& manifest) {
  std::vector<std::string> parts;
  for (const fs::path& part : manifest) parts.push_back(part.string());
  std::string name = parts[2] + ":" + parts[3];
  if (parts[0] != kOllamaHost) return parts[0] + "/" + parts[1] + "/" + name;
  return parts[1] == kOllamaOwner ? name : parts[1] + "/" + name;
}

void list_ollama(std::vector<StoredModel>& models) {
  constexpr int kDepth{3};  // HOST/OWNER/NAME/TAG
  for (const fs::path& store : ollama_stores()) {
    const fs::path manifests = store / "manifests";
    std::error_code error;
    for (auto entry = fs::recursive_directory_iterator(manifests, error);
         entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      if (error) break;
      if (entry.depth() != kDepth || !is_file(entry->path())) continue;
      const std::string name = ollama_name(entry->path().lexically_relative(manifests));
      Tried tried;
      try {
        if (const auto path = find_in_ollama(name, tried)) models.push_back({name, "Ollama", *path});
      } catch (const InputError& damaged) {
        models.push_back({name, "Ollama", {}, damaged.what()});
      }
    }
  }
}

}  // namespace

std::vector<StoredModel> stored_models() {
  std::vector<StoredModel> models;
  list_hugging_face(models);
  list_lm_studio(models);
  list_ollama(models);
  return models;
}

}  // namespace nibble
