#include "cli/verify/child_process.h"

#include <sys/wait.h>

#include <boost/asio/buffers_iterator.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/process/args.hpp>
#include <boost/process/async.hpp>
#include <boost/process/child.hpp>
#include <boost/process/error.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/io.hpp>
#include <system_error>

#include "core/system/clock.h"

namespace nibble::cli {
namespace {

namespace asio = boost::asio;
namespace process = boost::process;

std::string text_in(const asio::streambuf& buffer) {
  return {asio::buffers_begin(buffer.data()), asio::buffers_end(buffer.data())};
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  asio::io_context context;
  asio::streambuf out, err;
  std::error_code error;
  ChildResult result;
  const Stopwatch watch;
  process::child child(process::exe = command.front(),
                       process::args = std::vector<std::string>(command.begin() + 1, command.end()),
                       process::std_out > out, process::std_err > err, context, error);
  if (error) throw std::system_error(error, "starting " + command.front());
  context.run_for(limit);  // returns early when the child has closed both pipes
  if (context.stopped()) {
    child.wait();
    const int status = child.native_exit_code();  // has the format of waitpid()
    result.end = WIFSIGNALED(status) ? ChildResult::End::kSignalled : ChildResult::End::kExited;
    result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  } else {
    child.terminate();
    result.end = ChildResult::End::kTimedOut;
  }
  result.seconds = watch.seconds();
  result.out = text_in(out);
  result.err = text_in(err);
  return result;
}

}  // namespace nibble::cli
