// --require: the formats that operations must run in. Where a backend would run another one, nibble refuses to start.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace nibble {

struct Requirement {
  std::string text;  // as it was written: "experts=mxfp4/bf16"
  std::string
      operation;  // a name of `inspect --kernels`, or its first word: "experts" is every expert operation
  std::string weights;                     // formats in lower case
  std::optional<std::string> activations;  // not set: any
};

// Reads "OPERATION=WEIGHTS[/ACTIVATIONS],..." before a model is opened. Throws InputError where the syntax is wrong, and for an
// operation or a format that no backend has.
std::vector<Requirement> read_requirements(std::string_view list);

// Throws InputError where a kernel that the backend chose does not meet a requirement, or where this backend has no such operation.
void check_requirements(std::span<const Requirement> requirements, std::string_view backend,
                        std::span<const KernelChoice> kernels);

}  // namespace nibble
