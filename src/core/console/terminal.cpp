#include "core/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace nibble {

bool is_terminal(std::FILE* stream) { return ::isatty(fileno(stream)) == 1; }

bool understands_escapes(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return is_terminal(stream) && kind && *kind && std::string_view(kind) != "dumb";
}

size_t num_columns(std::FILE* terminal) {
  winsize size{};
  return ::ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace nibble
