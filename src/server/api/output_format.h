// The output format of a request, which each API names differently: response_format and text.format (OpenAI),
// structured_outputs and guided_* (vLLM), regex and ebnf (SGLang), grammar and json_schema (llama.cpp),
// output_config.format (Anthropic), format (Ollama).
#pragma once

#include <optional>
#include <string>

#include "grammar/languages/source.h"
#include "harmony/field.h"
#include "harmony/message.h"
#include "server/api/request_fields.h"

namespace nibble::server {

struct OutputFormat {
  std::optional<grammar::Source> source;  // absent: any text
  std::string field;  // full name of the request's field that set the format: "request.response_format"
  std::optional<harmony::ResponseFormat> told;  // the format as described in the prompt
  std::string name() const;                     // `field` without "request.": "response_format"
};

// Reads the fields of `api` that set the format. Throws InputError if one is invalid, or if two set a format.
OutputFormat read_output_format(Api api, const Field& request);

}  // namespace nibble::server
