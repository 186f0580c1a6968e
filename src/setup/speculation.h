// From --speculate, or vLLM's --speculative-config, to the drafters of an engine.
#pragma once

#include "core/settings.h"
#include "speculative/speculator.h"

namespace nibble {

// Throws InputError that names the flag, and what is wrong with it.
speculative::SpeculationOptions read_speculation(const Settings& settings);

}  // namespace nibble
