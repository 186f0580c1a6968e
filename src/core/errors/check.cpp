#include "core/errors/check.h"

#include <cstdio>
#include <cstdlib>

#include "core/console/output.h"

namespace nibble {

void check_failed(const char* file, int line, const char* condition, std::string_view values) {
  std::fflush(stdout);
  print_to(stderr, "nibble bug: {}:{}: check '{}' failed{}{}\n", file, line, condition,
           values.empty() ? "" : ": ", values);
  std::abort();
}

}  // namespace nibble
