#include "setup/model/model_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "core/errors/error.h"
#include "core/text/near_name.h"
#include "setup/model/model_stores.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSynthetic{"synthetic:"};

struct BundledName {
  std::string_view name, folder;
};
constexpr BundledName kBundledNames[] = {{"tiny", "tiny-gpt-oss"}};

// Names of OpenAI's published models. The download sizes in the message of refuse() do not include the copies
// of the weights in original/ and metal/.
constexpr std::string_view kPublished20b{"openai/gpt-oss-20b"}, kPublished120b{"openai/gpt-oss-120b"};

ModelSource find_synthetic(const std::string& argument, const std::string& what) {
  if (std::optional<Config> config = named_config(what)) return {argument, {}, config};
  std::error_code no_such_file;
  if (fs::is_regular_file(what, no_such_file)) return {argument, {}, read_config(what)};
  throw InputError(
      "'{}': no such file '{}'; after 'synthetic:' expected gpt-oss-20b, gpt-oss-120b or the path of a "
      "config.json",
      argument, what);
}

// Returns names that the user may have meant: published models, and models on this disk.
std::vector<std::string> known_names() {
  std::vector<std::string> names{std::string(kPublished20b), std::string(kPublished120b)};
  for (const BundledName& bundled : kBundledNames) names.emplace_back(bundled.name);
  for (const StoredModel& model : stored_models()) names.push_back(model.name);
  return names;
}

// Returns the end of a sentence, with the name that the user probably meant. Suggests no name if `argument`
// is a known name: it is spelt correctly, and the model is missing on this disk.
std::string guess_model(const std::string& argument) {
  const std::vector<std::string> names = known_names();
  return std::ranges::find(names, argument) == names.end() ? guess(argument, names) : ".";
}

[[noreturn]] void refuse(const std::string& argument, const std::vector<std::string>& tried) {
  const std::string_view wanted = argument.ends_with("gpt-oss-120b") ? kPublished120b : kPublished20b;
  throw InputError(
      "model '{}' not found: looked for {}{} Expected a folder, a file, or one of these names: tiny "
      "(bundled); {} (13.8 GB) and {} (65.3 GB, licence Apache-2.0), if in the Hugging Face cache (download "
      "with: hf download {} --exclude '*/*', where hf comes from: pipx install huggingface_hub; "
      "OWNER/NAME@REVISION for another revision; or save config.json, tokenizer.json and every "
      "model-*.safetensors "
      "of https://huggingface.co/{}/tree/main in a folder, and give the folder); gpt-oss:20b, if in Ollama's "
      "store; "
      "synthetic:gpt-oss-20b and synthetic:gpt-oss-120b (random weights, for measurements). 'nibble models' "
      "lists "
      "what is on this disk",
      argument, fmt::join(tried, " and "), guess_model(argument), kPublished20b, kPublished120b, wanted,
      wanted);
}

}  // namespace

fs::path ModelSource::folder() const { return fs::is_directory(path) ? path : path.parent_path(); }

std::vector<std::pair<std::string, fs::path>> bundled_models(const Places& places) {
  std::vector<std::pair<std::string, fs::path>> found;
  std::error_code no_such_file;
  for (const BundledName& bundled : kBundledNames)
    for (const fs::path& models : places.model_folders)
      if (const fs::path folder = models / bundled.folder; fs::is_directory(folder, no_such_file)) {
        found.emplace_back(bundled.name, folder);
        break;
      }
  return found;
}

ModelSource find_model(const std::string& argument, const Places& places) {
  if (argument.starts_with(kSynthetic)) return find_synthetic(argument, argument.substr(kSynthetic.size()));

  std::error_code no_such_file, why;
  if (fs::exists(argument, why)) return {argument, only_gguf_in(argument), {}};

  Tried tried{with_reason(fs::current_path(no_such_file) / argument, why)};
  for (const BundledName& bundled : kBundledNames) {
    if (bundled.name != argument) continue;
    for (const fs::path& models : places.model_folders) {
      const fs::path folder = models / bundled.folder;
      if (fs::is_directory(folder, no_such_file)) return {argument, folder, {}};
      tried.push_back(folder.string());
    }
  }
  for (const auto find : {&find_in_hugging_face, &find_in_lm_studio, &find_in_ollama})
    if (const auto path = find(argument, tried)) return {argument, only_gguf_in(*path), {}};
  refuse(argument, tried);
}

}  // namespace nibble
