#pragma once

#include <fstream>
#include <optional>
#include <string>

namespace nibble::cli {

class RecordFile {
 public:
  // Opens the file of --record early, to refuse a bad path before measuring. nullopt: no file.
  explicit RecordFile(std::optional<std::string> path);

  // Does nothing without a file. Throws InputError if writing fails.
  void append(const std::string& line);

 private:
  [[noreturn]] void fail() const;

  std::optional<std::string> path_;
  std::ofstream file_;
};

}  // namespace nibble::cli
