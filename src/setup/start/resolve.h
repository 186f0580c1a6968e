// Turns settings (text and numbers of flags) into the program's types, once, before a model is opened.
#pragma once

#include "core/program/settings.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Checks and converts the settings. The only files that it reads are the one of nibble tune and
// --secret-file. Throws an InputError that names the wrong flag and the accepted values.
ResolvedSettings resolve(const Settings& settings);

}  // namespace nibble
