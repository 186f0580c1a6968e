// The LoRA adapters of --lora, which are merged into a model when it is opened.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/adapter/merge_adapters.h"
#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Reads "FILE" and "FILE:SCALE". A text that is the path of a file has no scale. Throws InputError.
std::vector<AdapterSetup> read_adapters(std::span<const std::string> texts);

// Opens the adapters of the setup, and describes them in Model::adapters and in the log. Throws InputError,
// also for a model without files.
std::vector<ScaledAdapter> open_adapters(Model& model, const ResolvedSettings& setup);

// Merges the adapters into the model's dense matrices (model/adapter/merge_adapters.h). Throws InputError.
void merge_into_dense(Model& model, std::span<const ScaledAdapter> adapters, const ResolvedSettings& setup);

}  // namespace nibble
