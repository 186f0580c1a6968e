// The shared memory that a CTA may use, in three sizes. The kernels' shapes (warps, ring slots, columns per
// pass) follow from the budget: a large chip limited to a small budget runs exactly what a small chip runs.
// Needs no GPU. C++17, for device code.
#pragma once

#include <cstddef>
#include <optional>

namespace nibble::cuda {

// Shared memory in KB per CTA: sm_86, 89, 120 and 121 have 99, sm_80 has 163, sm_90 and sm_100 have 227.
enum class Budget { k99, k163, k227 };
inline constexpr Budget kBudgets[]{Budget::k99, Budget::k163, Budget::k227};

constexpr int kilobytes(Budget budget) {
  return budget == Budget::k99 ? 99 : budget == Budget::k163 ? 163 : 227;
}

// Dynamic shared memory of a CTA: one kilobyte is kept for a kernel's static arrays.
constexpr size_t usable_bytes(size_t shared_bytes) { return shared_bytes - 1024; }
constexpr size_t usable_bytes(Budget budget) {
  return usable_bytes(static_cast<size_t>(kilobytes(budget)) * 1024);
}
// Smallest dynamic shared memory with which a CTA has an SM to itself, on a chip with shared_bytes per CTA.
// An SM has one kilobyte more than that, and each CTA takes one for the driver.
constexpr size_t alone_bytes(size_t shared_bytes) { return usable_bytes(shared_bytes) / 2 + 16; }
// Largest budget of a chip with shared_bytes per CTA; none below 99 KB.
constexpr std::optional<Budget> largest_budget(size_t shared_bytes) {
  std::optional<Budget> largest;
  for (const Budget budget : kBudgets)
    if (static_cast<size_t>(kilobytes(budget)) * 1024 <= shared_bytes) largest = budget;
  return largest;
}

constexpr std::optional<Budget> budget_of(int kilobytes_of_cta) {
  for (const Budget budget : kBudgets)
    if (kilobytes(budget) == kilobytes_of_cta) return budget;
  return std::nullopt;
}

}  // namespace nibble::cuda
