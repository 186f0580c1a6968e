// The target: the GPU for which kernels are chosen. It is the installed GPU or, if options say so, a smaller
// one. This header is C++17, because CUDA code includes it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "backend/cuda/chip/stream.h"

namespace nibble::cuda {

// A family: the GPUs of one compute capability, and later GPUs that are treated like these (caps_of()).
// Compare families only for equality: sm_120 is not a larger Hopper, and sm_90a instructions run on sm_90
// only.
enum class Family { kSm80, kSm86, kSm89, kSm90, kSm100, kSm120, kSm121 };
inline constexpr Family kFamilies[]{Family::kSm80,  Family::kSm86,  Family::kSm89, Family::kSm90,
                                    Family::kSm100, Family::kSm120, Family::kSm121};

int compute_capability_of(Family family);  // for example 90 for kSm90
std::string name(Family family);           // for example "sm_90"

// A budget is the shared memory that a CTA may use. The shapes of kernels (warps, ring slots, columns per
// pass) follow from the budget, so a large chip with a small budget uses exactly the shapes of a small chip.

// KB of shared memory per CTA. Chips have 99 (sm_86, 89, 120, 121), 163 (sm_80) or 227 (sm_90, sm_100).
enum class Budget { k99, k163, k227 };
inline constexpr Budget kBudgets[]{Budget::k99, Budget::k163, Budget::k227};

constexpr int kilobytes(Budget budget) {
  return budget == Budget::k99 ? 99 : budget == Budget::k163 ? 163 : 227;
}

// Returns the dynamic shared memory that a CTA may use: all but 1 KB, which is left for static arrays.
constexpr size_t usable_bytes(size_t shared_bytes) { return shared_bytes - 1024; }
constexpr size_t usable_bytes(Budget budget) {
  return usable_bytes(static_cast<size_t>(kilobytes(budget)) * 1024);
}
// Returns how much dynamic shared memory a CTA must request so that no second CTA with the same request fits
// on the SM. `shared_bytes`: the largest amount that the chip allows per CTA. An SM has 1 KB more than
// shared_bytes, and the driver takes 1 KB of the SM's memory for each CTA.
constexpr size_t alone_bytes(size_t shared_bytes) { return usable_bytes(shared_bytes) / 2 + 16; }
// Returns the largest budget that fits into shared_bytes per CTA; empty if shared_bytes is below 99 KB.
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

struct Target {
  Family family{Family::kSm80};  // kSm80 if --shared-budget lowers the chip's budget (target_of())
  Budget budget{Budget::k99};
  int num_multiprocessors{0};
  bool has_clusters{false}, has_dependent_launch{false}, has_block_products{false}, has_wgmma{false};
};

// Returns whether the chip has wgmma, and enough shared memory for the pipeline of wgmma kernels. If true,
// every operation that has a wgmma kernel must use it: a step's activations have only one layout, that of
// wgmma.
constexpr bool multiplies_by_wgmma(const Target& target) {
  return target.has_wgmma && target.budget == Budget::k227;
}

struct LaunchContext {  // first argument of every launch function
  Stream stream;
  Target target;
};

}  // namespace nibble::cuda
