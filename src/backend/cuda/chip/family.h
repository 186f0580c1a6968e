#pragma once

#include <string>

namespace nibble::cuda {

// Chips that run the same code. Compare families by equality, never by order: sm_120 is not a larger Hopper,
// and sm_90a instructions run on sm_90 only.
enum class Family { kSm80, kSm86, kSm89, kSm90, kSm100, kSm120, kSm121 };
inline constexpr Family kFamilies[]{Family::kSm80,  Family::kSm86,  Family::kSm89, Family::kSm90,
                                    Family::kSm100, Family::kSm120, Family::kSm121};

int compute_capability_of(Family family);  // 90 for kSm90
std::string name(Family family);           // "sm_90"

}  // namespace nibble::cuda
