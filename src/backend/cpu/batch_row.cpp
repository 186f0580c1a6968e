#include "backend/cpu/batch_row.h"

namespace nibble::cpu {

std::vector<BatchRow> rows_of(const Batch& batch) {
  std::vector<BatchRow> rows;
  for (const Run& run : batch.runs) {
    int position = run.first_position;
    for (const TokenId token : run.tokens) rows.push_back({token, position++, &run});
  }
  return rows;
}

}  // namespace nibble::cpu
