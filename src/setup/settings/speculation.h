// Reads --speculate or vLLM's --speculative-config.
#pragma once

#include "core/program/settings.h"
#include "speculative/speculator.h"

namespace nibble {

// Parses the flags; opens no file. Throws an InputError with the flag and what is wrong.
speculative::SpeculationOptions read_speculation(const Settings& settings);

}  // namespace nibble
