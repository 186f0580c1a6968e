// The instruction sets that this machine supports. Each of them is tested.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cpu/kernel_table.h"

namespace nibble::cpu {

inline std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const IsaRow& row : isa_rows())
    if (row.is_available()) isas.push_back(row.isa);
  return isas;
}

// Returns the instruction sets for slow tests of whole operations and models. Of sets that share the same
// float kernels it returns only the last: their int8 kernels give the same bits (strips_test.cpp).
inline std::vector<Isa> isas_of_their_own() {
  std::vector<Isa> isas;
  for (const Isa isa : available_isas()) {
    const auto dot = [](Isa of) { return choose_kernels(of).dot(Format::kBf16); };
    if (!isas.empty() && dot(isas.back()) == dot(isa)) isas.pop_back();
    isas.push_back(isa);
  }
  return isas;
}

inline std::string name_of(const testing::TestParamInfo<Isa>& parameter) {
  return std::string(name(parameter.param));
}

}  // namespace nibble::cpu
