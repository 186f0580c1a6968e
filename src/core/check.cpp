#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace nibble {

void check_failed(const char* file, int line, const char* condition, std::string_view values) {
  std::fflush(stdout);
  fmt::print(stderr, "nibble has a bug: {}:{}: {} does not hold{}{}\n", file, line, condition,
             values.empty() ? "" : ": ", values);
  std::abort();
}

}  // namespace nibble
