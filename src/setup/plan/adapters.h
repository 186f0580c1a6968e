// LoRA adapters: those of --lora are merged into a model when it is opened; those of --lora-modules stay
// apart, and requests choose one by its name.
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
// also if the model is synthetic: no adapter belongs to random weights.
std::vector<ScaledAdapter> open_adapters(Model& model, const ResolvedSettings& setup);

// Merges the adapters into the model's dense matrices (model/adapter/merge_adapters.h). Throws InputError.
void merge_into_dense(Model& model, std::span<const ScaledAdapter> adapters, const ResolvedSettings& setup);

struct AdapterModule {  // one --lora-modules
  std::string name;     // name by which requests choose the adapter
  AdapterSetup adapter;
  std::string base;  // vLLM's base_model_name, shown as "parent" in lists of models; empty: the served model
};
// Reads "NAME=FILE[:SCALE]" and vLLM's JSON {"name", "path", "base_model_name"}. `taken`: the model's names.
// Throws InputError, also for a name that is taken or given twice.
std::vector<AdapterModule> read_adapter_modules(std::span<const std::string> texts,
                                                std::span<const std::string> taken);

// Throws InputError if `modules` is not empty, and either the backend cannot run adapters that requests
// choose, or several machines share the model (--nodes).
void check_takes_adapters(std::span<const AdapterModule> modules, const ResolvedSettings& setup);

// Opens the modules into BackendOptions::adapters of the setup, in their order, and describes them in
// Model::request_adapters and in the log. Throws InputError, also for an adapter that can only be merged.
void open_adapter_modules(std::span<const AdapterModule> modules, Model& model, ResolvedSettings& setup);

}  // namespace nibble
