// The input of a step in device memory: one row for each token.
#pragma once

#include <cstdint>

namespace nibble::cuda {

inline constexpr int kPagePositions{
    32};  // the same as kPageTokens of the host's headers, which kernels do not include

struct RowInput {
  int32_t token, position;
  uint32_t full_pages,
      sliding_pages;  // where this row's page tables begin in the step's page ids, less their first_page:
                      //   position p is in page_ids[full_pages + p / kPagePositions]
};

struct StepInput {
  const RowInput* rows;      // [T]
  const uint32_t* page_ids;  // both page tables of every run
};

}  // namespace nibble::cuda
