// Table of the flags that need or exclude each other, or need a kind of backend.
#pragma once

#include "core/settings.h"
#include "setup/backends.h"
#include "speculative/speculator.h"

namespace nibble {

struct FlagFacts {
  const Settings& settings;
  const BackendRow& backend;
  const cuda::CudaOptions& cuda;  // the GPUs that the flags name
  const speculative::SpeculationOptions& speculation;
};

void check_flag_rules(const FlagFacts& facts);  // throws an InputError with the flag of the first broken rule

}  // namespace nibble
