// Tensors of a checkpoint that are not tensors of the model, by name.
#pragma once

#include <string_view>

#include "formats/container.h"

namespace nibble {

// Returns what a tensor holds that quantisers write and nibble can't use; empty for other names.
std::string_view unusable_meaning(std::string_view name);

// Whether a tensor holds the frequencies of RoPE. They follow from config.json. Some programs save them with
// the weights; nibble ignores them, as transformers and vLLM do.
bool is_derived(std::string_view name);

// Refuses a checkpoint whose embedding has another prefix than `expected`, the name in a GptOssForCausalLM:
// such as "_orig_mod." of torch.compile, "module." of DistributedDataParallel or "base_model.model." of PEFT.
void refuse_wrapped(const Container& container, std::string_view expected);

}  // namespace nibble
