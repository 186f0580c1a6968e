// Reports a model whose chat template is not the released one.
#pragma once

#include "setup/model/model_source.h"

namespace nibble {

// Logs one warning if the model has a chat template (chat_template.jinja, tokenizer_config.json, or a GGUF
// file's metadata) that differs from the released one: the file, and the first line that differs. Does
// nothing for a model without a template. Throws nothing: a template that cannot be read is a warning too.
void report_template(const ModelSource& source);

}  // namespace nibble
