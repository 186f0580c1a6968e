#include "setup/model/template_notice.h"

#include <optional>
#include <string>
#include <system_error>

#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/program/log.h"
#include "core/text/json.h"
#include "formats/container_error.h"
#include "formats/gguf.h"
#include "harmony/chat_template.h"
#include "harmony/json_text.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTemplateBytes{1 << 20};

struct FoundTemplate {
  std::string place, text;
};

std::optional<FoundTemplate> template_of_gguf(const fs::path& path) {
  constexpr const char* kKey{"tokenizer.chat_template"};
  const Gguf gguf = open_gguf(path);
  const GgufValue* value = gguf.value(kKey);
  const auto text = value ? value->text() : std::nullopt;
  if (!text) return std::nullopt;
  return FoundTemplate{path.string() + ": " + kKey, std::string(*text)};
}

std::optional<FoundTemplate> template_beside(const fs::path& folder) {
  std::error_code error;
  const fs::path file = folder / "chat_template.jinja", config = folder / "tokenizer_config.json";
  if (fs::is_regular_file(file, error))
    return FoundTemplate{file.string(), read_text_file(file, kMaxTemplateBytes)};
  if (!fs::is_regular_file(config, error)) return std::nullopt;
  const Json object = harmony::parse_json(read_text_file(config, kMaxTemplateBytes), config.string());
  const auto member = object.find("chat_template");
  if (member == object.end() || !member->is_string()) return std::nullopt;
  return FoundTemplate{config.string() + ": chat_template", member->get<std::string>()};
}

}  // namespace

void report_template(const ModelSource& source) try {
  if (source.synthetic) return;
  const auto found = is_gguf(source.path) ? template_of_gguf(source.path) : template_beside(source.folder());
  if (!found) return;
  const auto difference = harmony::difference_from_released(found->text);
  if (!difference) return;
  log::warn(
      "{}: this chat template differs from the released one from line {} on: {}. nibble renders harmony "
      "itself and "
      "does not use it: check that the model was trained on harmony's prompts",
      found->place, difference->line, in_quotes(difference->text));
} catch (const InputError& error) {
  log::warn("{}", error.what());
}

}  // namespace nibble
