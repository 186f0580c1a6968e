// --require: the formats in which operations must run. If a backend would use another
// format, nibble refuses to start.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace nibble {

struct Requirement {
  std::string text;  // as the user wrote it: "experts=mxfp4/bf16"
  // A name in `inspect --kernels`, or its first word: "experts" means every expert operation.
  std::string operation;
  std::string weights;                     // format, in lower case
  std::optional<std::string> activations;  // format, in lower case; nullopt: any
};

// Parses "OPERATION=WEIGHTS[/ACTIVATIONS],..." before a model is opened. Throws InputError for wrong syntax,
// and for an operation or a format that no backend has.
std::vector<Requirement> read_requirements(std::string_view list);

// Throws InputError if a kernel that the backend chose does not meet a requirement, or if the backend does
// not have a required operation.
void check_requirements(std::span<const Requirement> requirements, std::string_view backend,
                        std::span<const KernelChoice> kernels);

}  // namespace nibble
