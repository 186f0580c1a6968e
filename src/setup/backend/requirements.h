// --require: the formats in which operations must run. nibble refuses to start if an operation would run in
// another format.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace nibble {

struct Requirement {
  std::string text;  // the requirement as the user wrote it: "experts=mxfp4/bf16"
  // Name of an operation as `inspect --kernels` prints it, or the first word of such a name: "experts" means
  // all expert operations.
  std::string operation;
  std::string weights;                     // format, in lower case
  std::optional<std::string> activations;  // format, in lower case; nullopt: any format
};

// Parses "OPERATION=WEIGHTS[/ACTIVATIONS],...". Throws InputError for wrong syntax, an unknown operation or
// an unknown format.
std::vector<Requirement> read_requirements(std::string_view list);

// Throws InputError if a chosen kernel breaks a requirement, or if the backend lacks a required operation.
void check_requirements(std::span<const Requirement> requirements, std::string_view backend,
                        std::span<const KernelChoice> kernels);

}  // namespace nibble
