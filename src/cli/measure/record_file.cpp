#include "cli/measure/record_file.h"

#include <utility>

#include "core/errors/error.h"
#include "core/files/new_file.h"

namespace nibble::cli {

RecordFile::RecordFile(std::optional<std::string> path) : path_(std::move(path)) {
  if (!path_) return;
  refuse_unread_fifo(*path_);
  file_.open(*path_, std::ios::app);
  if (!file_) fail();
}

void RecordFile::append(const std::string& line) {
  if (path_ && !(file_ << line).flush()) fail();
}

void RecordFile::fail() const { throw InputError("--record {}: cannot be written", *path_); }

}  // namespace nibble::cli
