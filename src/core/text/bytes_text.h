// Formats a byte count for people, in decimal units with three significant digits: "13.8 GB".
#pragma once

#include <fmt/format.h>

#include <string>

namespace nibble {

inline std::string bytes_text(double bytes) {
  constexpr const char* kUnits[]{"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, decimals, kUnits[unit]);
}
inline std::string bytes_text(size_t bytes) { return bytes_text(static_cast<double>(bytes)); }

}  // namespace nibble
