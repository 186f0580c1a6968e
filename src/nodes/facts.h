// Facts that must be equal on all nodes: results or communication depend on them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "model/weights.h"

namespace nibble::nodes {

enum class Fact { kProgram, kModel, kWeights, kFormats, kKernels, kDeviceLinks, kSplit };
inline constexpr std::string_view kFactNames[]{"a different version of nibble",
                                               "a different model shape",
                                               "different weights",
                                               "different formats",
                                               "different kernels",
                                               "a different version of NCCL",
                                               "a different split"};
inline constexpr size_t kNumFacts{std::size(kFactNames)}, kFactBytes{64};

// One text per fact, of printable ASCII and at most kFactBytes.
using Facts = std::array<std::string, kNumFacts>;
inline std::string& at(Facts& facts, Fact fact) { return facts[static_cast<size_t>(fact)]; }

// Describes, in one line, the first fact that differs; nullopt if all facts are equal.
std::optional<std::string> difference(const Facts& head, int rank, const Facts& follower);

// identity_of() returns a hash as 32 hex digits. To save time, the hash of weights covers only samples of
// every tensor.
std::string identity_of(const Config& config);
std::string identity_of(const Weights& weights);

}  // namespace nibble::nodes
