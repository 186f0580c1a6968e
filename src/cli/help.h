// Formats --help with CLI11's formatter, wrapped to the terminal's width.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace nibble::cli {

inline constexpr size_t kHelpColumns{100};  // maximum width; less on a narrower terminal

// Wraps `text`, breaking lines only at spaces. A line break in `text` counts as a space.
std::string wrap(std::string_view text, size_t width);

// Wraps each paragraph except indented lines (examples). A line that ends in a colon ends its paragraph.
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

size_t help_width();  // width for stdout: that of the terminal, or kHelpColumns if stdout is not a terminal

}  // namespace nibble::cli
