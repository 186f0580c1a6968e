// Turns settings (text and numbers of flags) into the program's types, once, before a model is opened.
#pragma once

#include "core/program/settings.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Opens only nibble tune's file and --secret-file. Throws an InputError with flag and accepted values.
ResolvedSettings resolve(const Settings& settings);

}  // namespace nibble
