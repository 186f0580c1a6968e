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
  // A placeholder in the wrong mode fails on reading or writing, like a closed stream. open() returns the
  // lowest free number: the closed stream's.
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
  ::__fpurge(stdout);  // otherwise the buffered text would be written later and fail again
  std::clearerr(stdout);
}

std::optional<std::string> finish_output() {
  // An earlier failed write sets the stream's error flag; its errno is lost.
  const bool had_failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0) return std::strerror(errno);
  return had_failed ? std::optional<std::string>("an earlier write failed") : std::nullopt;
}

}  // namespace nibble::cli
