#include "core/console/output.h"

#include <cerrno>
#include <system_error>

namespace nibble {
namespace {

void check(std::FILE* stream, bool is_written) {
  if (!is_written && stream != stderr)
    throw std::system_error(errno, std::generic_category(), "cannot write the output");
}

}  // namespace

void write_to(std::FILE* stream, std::string_view text) {
  check(stream, std::fwrite(text.data(), 1, text.size(), stream) == text.size());
}

void flush(std::FILE* stream) { check(stream, std::fflush(stream) == 0); }

}  // namespace nibble
