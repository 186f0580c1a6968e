// What all nodes must have alike, because it decides results or how they talk.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "model/weights.h"

namespace nibble::nodes {

enum class Fact { kProgram, kModel, kWeights, kFormats, kKernels, kDeviceLinks, kSplit };
inline constexpr std::string_view kFactNames[]{"another nibble", "a model of another shape",
                                               "other weights",  "other formats",
                                               "other kernels",  "another NCCL",
                                               "another split"};
inline constexpr size_t kNumFacts{std::size(kFactNames)}, kFactBytes{64};

// A text of printable ASCII for each, of at most kFactBytes.
using Facts = std::array<std::string, kNumFacts>;
inline std::string& at(Facts& facts, Fact fact) { return facts[static_cast<size_t>(fact)]; }

// Says in a line what differs first; nothing where all are alike.
std::optional<std::string> difference(const Facts& head, int rank, const Facts& follower);

// Hexadecimal digits that tell models apart: of the configuration; and of samples of every tensor, so that it takes no longer for large ones.
std::string identity_of(const Config& config);
std::string identity_of(const Weights& weights);

}  // namespace nibble::nodes
