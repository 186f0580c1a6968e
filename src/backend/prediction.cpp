#include "backend/prediction.h"

#include <algorithm>

namespace nibble {

double PredictedTime::total() const { return std::max({memory, issue, products}) + serial; }

std::string_view PredictedTime::bound() const {
  const double largest = std::max({memory, issue, products, serial});
  if (largest == memory) return "memory";
  if (largest == products) return "products";
  return largest == issue ? "issue" : "serial";
}

PredictedTime& PredictedTime::operator+=(const PredictedTime& other) {
  num_launches += other.num_launches;
  bytes += other.bytes;
  const double together = total() + other.total();
  memory += other.memory;
  issue += other.issue;
  products += other.products;
  // The time beyond the longest of the summed parts counts as serial, so that totals add up.
  serial = together - std::max({memory, issue, products});
  return *this;
}

double total_of(std::span<const PredictedTime> operations) {
  double sum = 0;
  for (const PredictedTime& row : operations) sum += row.total();
  return sum;
}

}  // namespace nibble
