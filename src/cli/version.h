// Which nibble this is, for bug reports and records of measurements.
#pragma once

#include <string>

namespace nibble::cli {

std::string version_text();  // several lines

}  // namespace nibble::cli
