// --record: the file of records that a measurement appends to.
#pragma once

#include <fstream>
#include <optional>
#include <string>

namespace nibble::cli {

class RecordFile {
 public:
  // Opens it before anything is measured, so that a path that can't be written costs no time. Not set: there is none. Throws InputError.
  explicit RecordFile(std::optional<std::string> path);

  // Throws InputError where it can't be written.
  void append(const std::string& line);

 private:
  [[noreturn]] void fail() const;

  std::optional<std::string> path_;
  std::ofstream file_;
};

}  // namespace nibble::cli
