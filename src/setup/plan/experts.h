// Chooses the format of a model's experts. The format depends on --experts, on the backend, and on the format
// in the file.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Opens a model (setup/model/model.h) for a backend: also merges the adapters of --lora, and chooses the
// format of the experts. If they are not stored as MXFP4, this may read them from the file, to find out
// whether MXFP4 can represent them exactly.
Model open_model_for(const std::string& argument, const ResolvedSettings& setup);
// Like open_model_for(), for comparisons with a model that is not quantised: experts that the backend does
// not run as they are become BF16, if it runs that.
Model open_unquantised_for(const std::string& argument, const ResolvedSettings& setup);
// Like open_model_for(), for commands that do not run the model: never reads dense matrices. Those that an
// adapter changes have their final format, and zeros as values.
Model describe_model_for(const std::string& argument, const ResolvedSettings& setup);
// Chooses the format of the experts of an opened model (model/convert_experts.h). Throws InputError if the
// backend cannot run the experts and `otherwise` is not set, or cannot run them in the format of --experts.
void decide_experts(Model& model, const ResolvedSettings& setup, std::optional<Format> otherwise = {});

// Returns the format in which the experts run; the largest one if layers differ.
Format experts_format(const Model& model, const ResolvedSettings& setup);

// Returns "; --experts mxfp4 makes the experts 12.7 GB" for a message, or "" if MXFP4 would not be smaller.
std::string smaller_experts(const Model& model, const ResolvedSettings& setup);

// Converts `weights` as decide_experts() decided: the experts, and ggml blocks of types that the backend
// cannot read. Calls `report` at the start of each task; if `report` is empty, calls setup.show_progress
// instead.
std::shared_ptr<const Weights> converted(std::shared_ptr<const Weights> weights,
                                         const ResolvedSettings& setup, const std::string& name,
                                         const decltype(ResolvedSettings::show_progress)& report = {});
// Converts synthetic weights, which are made with MXFP4 experts, to the format of --experts.
std::shared_ptr<const Weights> synthetic_with_experts(Weights made, const ResolvedSettings& setup);

}  // namespace nibble
