// --record: the file to which a measurement appends its record.
#pragma once

#include <fstream>
#include <optional>
#include <string>

namespace nibble::cli {

class RecordFile {
 public:
  // Opens the file before anything is measured, so that a bad path fails early; nullopt:
  // no file. Throws InputError.
  explicit RecordFile(std::optional<std::string> path);

  // Does nothing without a file. Throws InputError if the file cannot be written.
  void append(const std::string& line);

 private:
  [[noreturn]] void fail() const;

  std::optional<std::string> path_;
  std::ofstream file_;
};

}  // namespace nibble::cli
