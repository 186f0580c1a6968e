// From --speculate, or vLLM's --speculative-config, to the drafters of an engine.
#pragma once

#include "core/settings.h"
#include "model/config.h"
#include "setup/resolve.h"
#include "speculative/speculator.h"

namespace nibble {

// Opens no file. Throws InputError that names the flag, and what is wrong with it.
speculative::SpeculationOptions read_speculation(const Settings& settings);

// Gives the backend's options the draft head that was asked for, if one was. Throws InputError where the head does not fit the model.
void open_draft_head(ResolvedSettings& setup, const Config& config);

}  // namespace nibble
