// Version, commit and build type of this program.
#pragma once

#include <string>
#include <string_view>

#include "core/text/json.h"

namespace nibble::cli {

struct Build {
  std::string_view version, commit, kind, compiler;
  std::string_view name;  // Settings::build
};
Build this_build();
Json build_json();  // the version, in the form that records contain

std::string version_text();  // the output of --version, several lines

}  // namespace nibble::cli
