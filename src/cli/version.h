// Which nibble this is, for bug reports and records of measurements.
#pragma once

#include <string>
#include <string_view>

namespace nibble::cli {

struct Build {
  std::string_view version, commit, kind, compiler;
};
Build this_build();

std::string version_text();  // several lines

}  // namespace nibble::cli
