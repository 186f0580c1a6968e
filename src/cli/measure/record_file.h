#pragma once

#include <fstream>
#include <optional>
#include <string>

namespace nibble::cli {

class RecordFile {
 public:
  // Opens the file of --record, before measuring, so that a bad path is refused early. nullopt: no file.
  explicit RecordFile(std::optional<std::string> path);

  void append(const std::string& line);  // does nothing without a file; throws InputError if writing fails

 private:
  [[noreturn]] void fail() const;

  std::optional<std::string> path_;
  std::ofstream file_;
};

}  // namespace nibble::cli
