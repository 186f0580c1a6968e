// The operations of the forward pass, in order. Their names in kernel tables, `inspect --kernels`, --require,
// profiles and records come only from this list. model/ops.h has formulas and costs. This header is C++17,
// because device code includes it.
#pragma once

#include <string_view>

namespace nibble {

enum class Operation {
  kEmbed,
  kRmsNorm,
  kQkv,
  // The last part of qkv (rotate, store keys and values), if a backend has a separate kernel for it.
  kAppend,
  kAttend,
  kProject,
  kRoute,
  kExpertsUp,
  kExpertsDown,
  kUnembed,
  kSample,
};

inline constexpr Operation kOperations[]{Operation::kEmbed,   Operation::kRmsNorm,   Operation::kQkv,
                                         Operation::kAppend,  Operation::kAttend,    Operation::kProject,
                                         Operation::kRoute,   Operation::kExpertsUp, Operation::kExpertsDown,
                                         Operation::kUnembed, Operation::kSample};

constexpr std::string_view name(Operation operation) {
  switch (operation) {
    case Operation::kEmbed:
      return "embed";
    case Operation::kRmsNorm:
      return "rms_norm";
    case Operation::kQkv:
      return "qkv";
    case Operation::kAppend:
      return "append";
    case Operation::kAttend:
      return "attend";
    case Operation::kProject:
      return "project";
    case Operation::kRoute:
      return "route";
    case Operation::kExpertsUp:
      return "experts up";
    case Operation::kExpertsDown:
      return "experts down";
    case Operation::kUnembed:
      return "unembed";
    case Operation::kSample:
      return "sample";
  }
  return {};
}

}  // namespace nibble
