// Weights that a backend reads where a file is mapped change if the file does. A backend checks this after
// each step, so that no token computed from a changed file leaves it; setup checks it after loading.
#pragma once

#include "core/mapped_file.h"

namespace nibble {

// Throws BackendLost, which names the file, if the size or the time of modification of one has changed.
void check_unchanged(const MappedFiles& files);

}  // namespace nibble
