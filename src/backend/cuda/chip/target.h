// What a launch knows about the GPU: the chip's facts, or what the options pretend. Needs no GPU. C++17, for
// device code.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "backend/cuda/chip/stream.h"

namespace nibble::cuda {

// Chips that run the same code. Compare families by equality or set membership, never by order: sm_120 is not
// a larger Hopper, and sm_90a instructions run on sm_90 only.
enum class Family { kSm80, kSm86, kSm89, kSm90, kSm100, kSm120, kSm121 };
inline constexpr Family kFamilies[]{Family::kSm80,  Family::kSm86,  Family::kSm89, Family::kSm90,
                                    Family::kSm100, Family::kSm120, Family::kSm121};

int compute_capability_of(Family family);  // 90 for kSm90
std::string name(Family family);           // "sm_90"

// The shared memory that a CTA may use, in three sizes. The kernels' shapes (warps, ring slots, columns per
// pass) follow from the budget, not from the chip: a large chip limited to a small budget runs exactly what a
// small chip runs.

// Named after the KB a CTA may request: sm_86, 89, 120 and 121 have 99, sm_80 has 163, sm_90 and sm_100 have
// 227.
enum class Budget { k99, k163, k227 };
inline constexpr Budget kBudgets[]{Budget::k99, Budget::k163, Budget::k227};

constexpr int kilobytes(Budget budget) {
  return budget == Budget::k99 ? 99 : budget == Budget::k163 ? 163 : 227;
}

// Returns the dynamic shared memory available to a CTA: one kilobyte is kept for the static arrays that a
// kernel may have.
constexpr size_t usable_bytes(size_t shared_bytes) { return shared_bytes - 1024; }
constexpr size_t usable_bytes(Budget budget) {
  return usable_bytes(static_cast<size_t>(kilobytes(budget)) * 1024);
}
// Returns the smallest dynamic shared memory with which a CTA has an SM to itself, on a chip with
// shared_bytes per CTA. An SM has one kilobyte more than that, and each CTA takes one for the driver.
constexpr size_t alone_bytes(size_t shared_bytes) { return usable_bytes(shared_bytes) / 2 + 16; }
// Returns the largest budget of a chip with shared_bytes per CTA; none below 99 KB.
constexpr std::optional<Budget> largest_budget(size_t shared_bytes) {
  std::optional<Budget> largest;
  for (const Budget budget : kBudgets)
    if (static_cast<size_t>(kilobytes(budget)) * 1024 <= shared_bytes) largest = budget;
  return largest;
}

// Returns the budget of that size, if one exists.
constexpr std::optional<Budget> budget_of(int kilobytes_of_cta) {
  for (const Budget budget : kBudgets)
    if (kilobytes(budget) == kilobytes_of_cta) return budget;
  return std::nullopt;
}

struct Target {
  Family family{Family::kSm80};
  Budget budget{Budget::k99};
  int num_multiprocessors{0};
  bool has_clusters{false}, has_dependent_launch{false}, has_block_products{false}, has_wgmma{false};
};

// Whether products use wgmma: if the chip has it, and memory for its stages. Then every such kernel uses it,
// because activations are stored in one layout only.
constexpr bool multiplies_by_wgmma(const Target& target) {
  return target.has_wgmma && target.budget == Budget::k227;
}

// The first argument of every launch function.
struct LaunchContext {
  Stream stream;
  Target target;
};

}  // namespace nibble::cuda
