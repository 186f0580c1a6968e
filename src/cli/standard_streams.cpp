#include "cli/standard_streams.h"

#include <fcntl.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace nibble::cli {

void prepare_standard_streams() {
  // Open /dev/null in the wrong mode, so that reads and writes fail as on a closed stream. open() returns the
  // lowest free descriptor, and that is the closed stream's.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) [[maybe_unused]]
      const int taken = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  std::signal(SIGPIPE, SIG_DFL);
}

void outlive_the_terminal() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
}

void announce(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  ::__fpurge(stdout);  // discard the buffered text: a later write of it would fail again
  std::clearerr(stdout);
}

std::optional<std::string> finish_output() {
  // True if an earlier write failed. The errno of that failure is no longer known.
  const bool had_failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0) return std::strerror(errno);
  return had_failed ? std::optional<std::string>("an earlier write failed") : std::nullopt;
}

}  // namespace nibble::cli
