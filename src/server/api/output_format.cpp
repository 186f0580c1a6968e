#include "server/api/output_format.h"

#include <fmt/format.h>

#include <utility>

#include "core/text/json.h"

namespace nibble::server {
namespace {

using grammar::Language;

class FormatReader {
 public:
  // Reads {"type": "text" | "json_object" | "json_schema", ...}. Chat completions have the schema's fields in
  // an object "json_schema", other APIs beside "type".
  void read_typed(const Field& format) {
    constexpr const char* kTypes{R"("text", "json_object" or "json_schema")"};
    const Field type = format.need("type", kTypes);
    if (type.value() == "text") return;
    if (type.value() == "json_object") {
      if (const auto schema = format.find("schema"))
        return set_schema(format, *schema, format);  // llama.cpp allows a schema in "json_object".
      return set_object(format);
    }
    if (type.value() != "json_schema") type.refuse(kTypes);
    const Field inner = format.find("json_schema").value_or(format);
    set_schema(format, inner.need("schema", "a JSON schema"), inner);
  }

  // Sets the schema, given as an object or as JSON text. `about` may contain name, description and strict.
  void set_schema(const Field& field, const Field& schema, const Field& about) {
    const Json& value = schema.value();
    if (!value.is_object() && !value.is_boolean() && !value.is_string())
      schema.refuse("a JSON schema: an object, or a string that contains one");
    std::string text = value.is_string() ? schema.string() : harmony::json_line(value);
    harmony::ResponseFormat told{.name = "response", .description = {}, .schema = text};
    bool is_strict = false;
    if (about.value().is_object() && &about.value() != &value) {
      told.name = about.find_string("name").value_or(told.name);
      told.description = about.find_string("description").value_or("");
      if (const auto strict = about.find("strict")) is_strict = strict->boolean();
    }
    set(field, {Language::kJsonSchema, std::move(text), is_strict});
    format_.told = std::move(told);
  }
  void set_object(const Field& field) {
    set(field, {Language::kJsonObject, "", false});
    format_.told =
        harmony::ResponseFormat{.name = "json_object", .description = {}, .schema = R"({"type":"object"})"};
  }
  void set_text(const Field& field, Language language) { set(field, {language, field.string(), false}); }
  void set_choice(const Field& field) {
    for (const Field& text : field.elements()) text.string();
    set(field, {Language::kChoice, harmony::json_line(field.value()), false});
  }

  OutputFormat take() { return std::move(format_); }

 private:
  void set(const Field& field, grammar::Source source) {
    if (format_.source) field.refuse(fmt::format("absent if {} is present", format_.field));
    format_.source = std::move(source);
    format_.field = field.place();
  }

  OutputFormat format_;
};

void read_structured_outputs(const Field& outputs, FormatReader& reader) {
  const auto schema = outputs.find("json"), regex = outputs.find("regex"), choice = outputs.find("choice"),
             grammar = outputs.find("grammar"), object = outputs.find("json_object");
  if (!schema && !regex && !choice && !grammar && !object)
    outputs.refuse("an object with json, regex, choice, grammar or json_object");
  if (schema) reader.set_schema(*schema, *schema, *schema);
  if (regex) reader.set_text(*regex, Language::kRegex);
  if (choice) reader.set_choice(*choice);
  if (grammar) reader.set_text(*grammar, Language::kEbnfOrLark);
  if (object && object->boolean()) reader.set_object(*object);
}

void read_of_others(const Field& request, FormatReader& reader) {
  if (const auto outputs = request.find("structured_outputs")) read_structured_outputs(*outputs, reader);
  if (const auto schema = request.find("guided_json")) reader.set_schema(*schema, *schema, *schema);
  // llama.cpp's clients send an empty schema if they want none.
  if (const auto schema = request.find("json_schema");
      schema && schema->value() != "" && !schema->value().empty())
    reader.set_schema(*schema, *schema, *schema);
  for (const char* key : {"guided_regex", "regex"})
    if (const auto regex = request.find(key)) reader.set_text(*regex, Language::kRegex);
  if (const auto choice = request.find("guided_choice")) reader.set_choice(*choice);
  if (const auto grammar = request.find("guided_grammar")) reader.set_text(*grammar, Language::kEbnfOrLark);
  if (const auto grammar = request.find("ebnf")) reader.set_text(*grammar, Language::kEbnf);
  if (const auto grammar = request.find("grammar"); grammar && grammar->value() != "")
    reader.set_text(*grammar, Language::kGbnf);
}

}  // namespace

std::string OutputFormat::name() const {
  constexpr std::string_view kRoot{"request."};
  return field.starts_with(kRoot) ? field.substr(kRoot.size()) : field;
}

OutputFormat read_output_format(Api api, const Field& request) {
  FormatReader reader;
  switch (api) {
    case Api::kChat:
    case Api::kCompletions:
      if (const auto format = request.find("response_format")) reader.read_typed(*format);
      read_of_others(request, reader);
      break;
    case Api::kResponses:
      if (const auto text = request.find("text"))
        if (const auto format = text->find("format")) reader.read_typed(*format);
      read_of_others(request, reader);
      break;
    case Api::kAnthropic:
      if (const auto config = request.find("output_config"))
        if (const auto format = config->find("format")) reader.read_typed(*format);
      if (const auto format = request.find("output_format")) reader.read_typed(*format);
      break;
    case Api::kOllama:
      if (const auto format = request.find("format"); format && format->value() != "") {
        if (format->value() == "json")
          reader.set_object(*format);
        else
          reader.set_schema(*format, *format, *format);
      }
      break;
    case Api::kTokenize:
    case Api::kOllamaShow:
    case Api::kDetokenize:
      break;
  }
  return reader.take();
}

}  // namespace nibble::server
