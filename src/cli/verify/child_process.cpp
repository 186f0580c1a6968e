#include "cli/verify/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

extern char** environ;

namespace nibble::cli {
namespace {

using Clock = std::chrono::steady_clock;

void check(int error, const std::string& what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

// Its ends are closed when it goes; children have them only where they are handed over.
struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() { check(pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "making a pipe"); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
  void close_writer() { close(std::exchange(ends[1], -1)); }
};

pid_t start(const std::vector<std::string>& command, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  check(posix_spawn_file_actions_init(&actions), "starting a child");
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check(error, "starting " + command.front());
  return pid;
}

// Until both ends are closed, or the time is up: false.
bool read_all(const Pipe& out, const Pipe& err, Clock::time_point deadline, ChildResult& result) {
  std::array<pollfd, 2> open{{{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}}};
  const std::array<std::string*, 2> texts{&result.out, &result.err};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    const int ready = poll(open.data(), open.size(), static_cast<int>(std::min<long>(left, 1000)));
    if (ready < 0 && errno != EINTR) check(errno, "waiting for a child");
    for (size_t i = 0; ready > 0 && i < open.size(); ++i) {
      if (open[i].fd < 0 || !open[i].revents) continue;
      std::array<char, 4096> piece;
      const ssize_t count = read(open[i].fd, piece.data(), piece.size());
      if (count > 0)
        texts[i]->append(piece.data(), static_cast<size_t>(count));
      else if (count == 0 || errno != EINTR)
        open[i].fd = -1;
    }
  }
  return true;
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  Pipe out, err;
  ChildResult result;
  const auto started = Clock::now();
  const pid_t pid = start(command, out, err);
  out.close_writer();
  err.close_writer();
  const bool ended = read_all(out, err, started + limit, result);
  if (!ended) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) check(errno == EINTR ? 0 : errno, "waiting for a child");
  result.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  result.end = !ended                ? ChildResult::End::kTimedOut
               : WIFSIGNALED(status) ? ChildResult::End::kSignalled
                                     : ChildResult::End::kExited;
  result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace nibble::cli
