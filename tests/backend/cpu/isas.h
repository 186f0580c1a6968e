// The instruction sets that this machine can run: each is tested.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cpu/kernel_table.h"

namespace nibble::cpu {

inline std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512})
    if (is_available(isa)) isas.push_back(isa);
  return isas;
}

inline std::string name_of(const testing::TestParamInfo<Isa>& parameter) {
  return std::string(name(parameter.param));
}

}  // namespace nibble::cpu
