// Reads what form a request asks its answer to have, in the words of any API: response_format and text.format of OpenAI, structured_outputs
// and guided_* of vLLM, regex and ebnf of SGLang, grammar and json_schema of llama.cpp, output_config.format of Anthropic, format of
// Ollama.
#pragma once

#include <optional>
#include <string>

#include "grammar/languages/source.h"
#include "harmony/field.h"
#include "harmony/message.h"
#include "server/api/request_fields.h"

namespace nibble::server {

struct OutputFormat {
  std::optional<grammar::Source> source;        // nothing: any text
  std::string field;                            // that asks for it, "request.response_format"
  std::optional<harmony::ResponseFormat> told;  // what the prompt says of it
  std::string name() const;                     // that field without the request's: "response_format"
};

// Throws InputError, also where two fields ask for a form.
OutputFormat read_output_format(Api api, const harmony::Field& request);

}  // namespace nibble::server
