// Turns settings, which are text and numbers as given by flags, into the types that the program works with.
// This happens once, before a model is opened, so that a wrong flag is refused immediately.
#pragma once

#include "core/settings.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Reads only the file of nibble tune and --secret-file. Throws an InputError that names
// the flag and what is accepted.
ResolvedSettings resolve(const Settings& settings);

}  // namespace nibble
