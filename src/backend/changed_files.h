// Weights that a backend reads from a mapped file change if the file does. A backend checks the files after
// each step, so that it returns no token computed from a changed file. Loading checks them too.
#pragma once

#include "core/files/mapped_file.h"

namespace nibble {

// Throws BackendLost, which names the file, if the size or time of modification of a file has changed.
void check_unchanged(const MappedFiles& files);

}  // namespace nibble
