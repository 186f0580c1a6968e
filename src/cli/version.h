// Version, commit and build of this program, for bug reports and records of measurements.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace nibble::cli {

struct Build {
  std::string_view version, commit, kind, compiler;
};
Build this_build();
nlohmann::ordered_json build_json();  // as a record of a measurement holds it

std::string version_text();  // several lines

}  // namespace nibble::cli
