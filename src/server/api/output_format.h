// A request's output format in the terms of any API: response_format and text.format of OpenAI,
// structured_outputs and guided_* of vLLM, regex and ebnf of SGLang, grammar and json_schema of llama.cpp,
// output_config.format of Anthropic, format of Ollama.
#pragma once

#include <optional>
#include <string>

#include "grammar/languages/source.h"
#include "harmony/field.h"
#include "harmony/message.h"
#include "server/api/request_fields.h"

namespace nibble::server {

struct OutputFormat {
  std::optional<grammar::Source> source;        // absent: any text
  std::string field;                            // the request's field for it: "request.response_format"
  std::optional<harmony::ResponseFormat> told;  // what the prompt says about it
  std::string name() const;                     // `field` without "request.": "response_format"
};

// Throws InputError, also if two fields demand a format.
OutputFormat read_output_format(Api api, const harmony::Field& request);

}  // namespace nibble::server
