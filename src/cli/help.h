// Lays out --help: CLI11's formatter, with lines wrapped to the terminal's width.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace nibble::cli {

inline constexpr size_t kHelpColumns{100};  // at most; a terminal that has fewer gets fewer

// Lines of at most `width` columns, broken at spaces alone. A line break of the text counts as a space.
std::string wrap(std::string_view text, size_t width);

// Paragraphs wrapped, one by one. Lines stay as they are where they are indented, which examples are, blank, or end in a colon.
std::string wrap_paragraphs(std::string_view text, size_t width);

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(size_t width);

 private:
  std::string make_description(const CLI::App* app) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* app) const override;

  size_t width_;
};

size_t help_width();  // of what stdout is

}  // namespace nibble::cli
