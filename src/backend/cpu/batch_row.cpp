#include "backend/cpu/batch_row.h"

#include <utility>

namespace nibble::cpu {

std::vector<BatchRow> rows_of(const Batch& batch) {
  std::vector<BatchRow> rows;
  for (const Run& run : batch.runs) {
    auto token = run.tokens.begin();
    for (PlaceInRun& place : places_of(run))
      rows.push_back({*token++, place.position, &run, std::move(place.path)});
  }
  return rows;
}

}  // namespace nibble::cpu
