// --require: that operations run in the formats that were asked for, or not at all.
#pragma once

#include <span>
#include <string_view>

#include "backend/backend.h"

namespace nibble {

// `list`: OPERATION=WEIGHTS or OPERATION=WEIGHTS/ACTIVATIONS, with commas between them, in the words of `inspect --kernels`;
// "experts" stands for all operations that begin with that word. Throws InputError where a row that the backend would run has another
// format, and where an operation or format is not known.
void require_kernels(std::string_view list, std::string_view backend, std::span<const KernelChoice> kernels);

}  // namespace nibble
