// Which flags need or exclude each other, or need a kind of backend: one table.
#pragma once

#include "core/settings.h"
#include "setup/backends.h"
#include "speculative/speculator.h"

namespace nibble {

// What the rules are checked against.
struct FlagFacts {
  const Settings& settings;
  const BackendRow& backend;
  const cuda::CudaOptions& cuda;  // the GPUs that the flags name
  const speculative::SpeculationOptions& speculation;
};

// Throws an InputError that names the flag of the first rule that does not hold.
void check_flag_rules(const FlagFacts& facts);

}  // namespace nibble
