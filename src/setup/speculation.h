// Reads --speculate, or vLLM's --speculative-config.
#pragma once

#include "core/settings.h"
#include "speculative/speculator.h"

namespace nibble {

// Parses the flags and opens no file. Throws an InputError that names the flag and what is wrong with it.
speculative::SpeculationOptions read_speculation(const Settings& settings);

}  // namespace nibble
