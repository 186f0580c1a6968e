#include "cli/terminal/loading_lines.h"

#include "core/console/output.h"
#include "core/console/progress.h"
#include "core/console/terminal.h"

namespace nibble::cli {

void LoadingLines::report(size_t done, size_t total, double seconds) {
  if (done < last_done_) began_ = seconds;
  last_done_ = done;
  if (done >= total || seconds - last_ < kInterval || understands_escapes(out_)) return;
  last_ = seconds;
  print_to(out_, "loading: {:.0f} %{}\n", 100.0 * static_cast<double>(done) / static_cast<double>(total),
           time_left(done, total, seconds - began_));
  flush(out_);
}

}  // namespace nibble::cli
