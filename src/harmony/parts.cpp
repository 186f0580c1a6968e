#include "harmony/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text/json.h"
#include "text/base64.h"
#include "text/utf8.h"

namespace nibble::harmony {
namespace {

constexpr const char* kContent{"a string or a list of text parts"};

void append(std::string& text, std::string_view separator, std::string_view more) {
  if (!text.empty() && !more.empty()) text += separator;
  text += more;
}

// Types of parts that hold text, and the member with that text.
constexpr std::pair<std::string_view, const char*> kTexts[] = {
    {"text", "text"},
    {"input_text", "text"},
    {"output_text", "text"},
    {"reasoning_text", "text"},
    {"summary_text", "text"},
    {"refusal", "refusal"},  // gpt-oss writes refusals as ordinary text
    {"tool_reference", "tool_name"},
};

// Returns the text of a data URL: "Hi" for "data:text/plain;base64,SGk=".
std::optional<std::string> text_of_data(std::string_view url) {
  constexpr std::string_view kScheme{"data:text/"}, kCode{";base64,"};
  const size_t code = url.find(kCode);
  if (!url.starts_with(kScheme) || code == std::string_view::npos) return std::nullopt;
  std::string text;
  if (!decode_base64(url.substr(code + kCode.size()), text) || well_formed_prefix(text) != text.size())
    return std::nullopt;
  return text;
}

// Returns the text of a document (Anthropic) or a file (OpenAI); nullopt if it contains no text.
std::optional<std::string> document_text(const Field& part, const ContentForm& form) {
  std::optional<std::string> text;
  if (const auto source = part.find("source")) {
    const auto type = source->find_string("type");
    if (type == "text") {
      source->skip({"media_type"});
      text = source->need_string("data");
    } else if (type == "content") {
      text = content_text(source->need("content", kContent), form);
    }
  } else {
    const Field file = part.find("file").value_or(part);
    if (const auto data = file.find("file_data"); data && data->value().is_string())
      text = text_of_data(data->value().get_ref<const std::string&>());
    if (text) text->insert(0, file.find("filename") ? file.need_string("filename") + "\n" : "");
  }
  if (!text) return std::nullopt;
  std::string whole;
  for (const char* key : {"title", "context"}) append(whole, "\n", part.find_string(key).value_or(""));
  append(whole, "\n", *text);
  return whole;
}

std::string search_result_text(const Field& part, const ContentForm& form) {
  std::string text;
  for (const char* key : {"title", "source"}) append(text, "\n", part.find_string(key).value_or(""));
  append(text, "\n", content_text(part.need("content", kContent), form));
  return text;
}

std::string note_of(std::string_view type) {
  if (type == "image" || type == "image_url" || type == "input_image") return std::string(kImageNote);
  if (type == "document" || type == "file" || type == "input_file")
    return "[an attached file that can't be shown]";
  return fmt::format("[a part of type {} that can't be shown]", type);
}

// Joins pieces of reasoning by blank lines. Adjacent pieces with the same index are joined directly.
std::string details_text(const Field& details) {
  std::string text;
  std::optional<Json> last;
  for (const Field& detail : details.elements()) {
    const std::string type = detail.find_string("type").value_or("reasoning.text");
    const auto piece = detail.find_string(type == "reasoning.summary" ? "summary" : "text");
    if (!piece) {
      detail.leave_out(type);
      continue;
    }
    detail.skip({"format", "id", "signature"});
    const auto index = detail.find("index");
    append(text, last && index && index->value() == *last ? "" : "\n\n", *piece);
    last = index ? std::optional(index->value()) : std::nullopt;
  }
  return text;
}

std::string blocks_text(const Field& blocks) {
  std::string text;
  for (const Field& block : blocks.elements()) {
    block.skip({"type"});
    if (const auto thinking = block.find_string("thinking"))
      append(text, "\n\n", *thinking);
    else
      block.leave_out(block.find_string("type").value_or("thinking"));
  }
  return text;
}

}  // namespace

std::string part_text(const Field& part, const ContentForm& form) {
  if (!form.is_result) part.need("type", form.accepted);
  const std::string type = part.find_string("type").value_or("text");
  const auto known = std::ranges::find_if(kTexts, [&](const auto& row) { return row.first == type; });
  if (known != std::end(kTexts)) return part.need_string(known->second);
  if (type == "search_result") return search_result_text(part, form);
  if (type == "document" || type == "file" || type == "input_file")
    if (auto text = document_text(part, form)) return *text;
  if (!form.is_result) part.find("type")->refuse(fmt::format("{}: the model reads only text", form.accepted));
  if (const auto text = part.find("text"); text && text->value().is_string()) return text->string();
  part.leave_out(type);
  return note_of(type);
}

std::string content_text(const Field& content, const ContentForm& form) {
  if (content.value().is_string()) return content.string();
  if (!content.value().is_array()) content.refuse(kContent);
  std::string text;
  for (const Field& part : content.elements()) append(text, form.separator, part_text(part, form));
  return text;
}

std::string message_reasoning(const Field& message) {
  std::string reasoning;
  const auto use = [&](const std::string& text) {
    if (reasoning.empty()) reasoning = text;
  };
  for (const char* key : {"reasoning", "reasoning_content", "thinking"})
    use(message.find_string(key).value_or(""));
  if (const auto details = message.find("reasoning_details")) use(details_text(*details));
  if (const auto blocks = message.find("thinking_blocks")) use(blocks_text(*blocks));
  return reasoning;
}

}  // namespace nibble::harmony
