// Table of the flags that need or exclude each other, or need a kind of backend.
#pragma once

#include "core/program/settings.h"
#include "setup/backend/backends.h"
#include "speculative/speculator.h"

namespace nibble {

struct FlagFacts {
  const Settings& settings;
  const BackendRow& backend;
  const cuda::CudaOptions& cuda;  // GPUs and shares, as read from the flags
  const speculative::SpeculationOptions& speculation;
};

void check_flag_rules(const FlagFacts& facts);  // throws an InputError with the flag of the first broken rule

}  // namespace nibble
