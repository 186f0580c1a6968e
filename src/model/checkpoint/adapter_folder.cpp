#include "model/checkpoint/adapter_folder.h"

#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "formats/container_error.h"
#include "formats/untrusted_json.h"
#include "model/json_fields.h"

namespace nibble {

void refuse_adapter(const std::filesystem::path& folder) {
  constexpr size_t kMaxBytes{1 << 20}, kMaxDepth{32};
  const std::filesystem::path file = folder / "adapter_config.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return;
  simdjson::dom::parser parser;
  const std::string text = read_text_file(file, kMaxBytes);
  const Fields fields(parse_untrusted_json(parser, text, kMaxDepth, file), file.string());
  const std::optional<Fields::Element> field = fields.find("base_model_name_or_path");
  std::string_view base;
  throw InputError("{}: is a LoRA adapter{}, not a model. Give that model, and this folder with --lora",
                   folder.string(), field && !field->get(base) ? " of " + in_quotes(base) : std::string());
}

}  // namespace nibble
