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
  // Opened the wrong way round, so that reading or writing fails as it does where a stream is closed. open() takes the lowest number.
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
  ::__fpurge(stdout);  // else the text would be written later, and fail again
  std::clearerr(stdout);
}

std::optional<std::string> finish_output() {
  // A text that could not be written earlier has left a mark on the stream, and no reason.
  const bool had_failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0) return std::strerror(errno);
  return had_failed ? std::optional<std::string>("an earlier part is lost") : std::nullopt;
}

}  // namespace nibble::cli
