#include "cli/terminal/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "core/errors/error.h"
#include "text/utf8.h"

namespace nibble::cli {
namespace {

// Write end of CatchInterrupt's pipe; global, because a signal handler can only reach globals. A flag would
// not do: a signal on another thread does not interrupt a read() of the main thread.
std::atomic<int> interrupt_pipe{-1};
static_assert(std::atomic<int>::is_always_lock_free);

void on_interrupt(int) {
  const int saved_errno = errno;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_pipe, "!", 1);
  errno = saved_errno;
}

bool has_colors(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  return understands_escapes(stream) && !(no_color && *no_color);
}

std::string_view read_some(std::span<char> buffer) {  // reads bytes from stdin; empty at the end of the input
  ssize_t count;
  do count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  while (count < 0 && errno == EINTR);
  if (count < 0) throw InputError("cannot read standard input: {}", std::strerror(errno));
  return {buffer.data(), static_cast<size_t>(count)};
}

}  // namespace

std::string_view dim_on(std::FILE* stream) { return has_colors(stream) ? "\x1b[2m" : ""; }
std::string_view dim_off(std::FILE* stream) { return has_colors(stream) ? "\x1b[0m" : ""; }

CatchInterrupt::CatchInterrupt() {
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  read_ = ends[0];
  write_ = ends[1];
  interrupt_pipe = write_;
  struct sigaction action {};
  action.sa_handler = &on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_);
}

CatchInterrupt::~CatchInterrupt() {
  sigaction(SIGINT, &previous_, nullptr);
  interrupt_pipe = -1;
  ::close(read_);
  ::close(write_);
}

bool CatchInterrupt::take() {
  char presses[16];
  return ::read(read_, presses, sizeof presses) > 0;
}

LineReader::Outcome LineReader::read(std::string& line) {
  for (;;) {
    const size_t newline = pending_.find('\n');
    if (newline != std::string::npos) {
      line = pending_.substr(0, newline);
      pending_.erase(0, newline + 1);
      return Outcome::kLine;
    }
    if (has_ended_) {
      line = std::exchange(pending_, {});
      return line.empty() ? Outcome::kEnd : Outcome::kLine;
    }
    // poll() ignores a descriptor of -1.
    pollfd sources[]{{STDIN_FILENO, POLLIN, 0}, {interrupt_ ? interrupt_->descriptor() : -1, POLLIN, 0}};
    if (::poll(sources, 2, -1) < 0) continue;  // interrupted by another signal
    if (sources[1].revents != 0) return Outcome::kSignal;
    char buffer[4096];
    const std::string_view bytes = read_some(buffer);
    has_ended_ = bytes.empty();
    pending_ += bytes;
  }
}

std::string read_input() {
  std::string text;
  char buffer[1 << 16];
  for (std::string_view bytes; !(bytes = read_some(buffer)).empty();) text += bytes;
  return text;
}

bool has_input() {
  struct stat status {};
  if (::fstat(STDIN_FILENO, &status) != 0) return false;
  return S_ISFIFO(status.st_mode) || S_ISREG(status.st_mode) || S_ISSOCK(status.st_mode);
}

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  const size_t valid = well_formed_prefix(text);
  return valid == text.size() ? std::nullopt : std::optional(valid);
}

}  // namespace nibble::cli
