// Recognises the folder of a LoRA adapter, which looks like a model without a config.json.
#pragma once

#include <filesystem>

namespace nibble {

// Throws an InputError that names the base model if `folder` has an adapter_config.json, as PEFT writes it.
void refuse_adapter(const std::filesystem::path& folder);

}  // namespace nibble
