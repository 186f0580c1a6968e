#include "cli/help.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "core/console/terminal.h"
#include "core/text/take_until.h"

namespace nibble::cli {
namespace {

// Width of the left column, which has flags and their values. Descriptions are to its right.
constexpr size_t kNameColumns{38};
constexpr size_t kLeastColumns{60};  // minimum width of the help text; lines overflow on a narrower terminal

}  // namespace

std::string wrap(std::string_view text, size_t width) {
  std::string spaced(text), wrapped;
  std::ranges::replace(spaced, '\n', ' ');
  size_t column = 0;
  for (std::string_view left = spaced; !left.empty();) {
    const std::string_view word = take_until(left, ' ');
    if (word.empty()) continue;
    const bool fits = column + 1 + word.size() <= width;
    if (column > 0) wrapped += fits ? ' ' : '\n';
    column = column > 0 && fits ? column + 1 + word.size() : word.size();
    wrapped += word;
  }
  return wrapped;
}

std::string wrap_paragraphs(std::string_view text, size_t width) {
  std::string wrapped, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) wrapped += wrap(paragraph, width) + "\n";
    paragraph.clear();
  };
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    if (line.empty() || line.starts_with(' ')) {
      end_paragraph();
      wrapped += std::string(line) + "\n";
      continue;
    }
    paragraph += (paragraph.empty() ? "" : " ") + std::string(line);
    if (line.ends_with(':')) end_paragraph();
  }
  end_paragraph();
  return wrapped;
}

HelpFormatter::HelpFormatter(size_t width) : width_(width) { column_width(kNameColumns); }

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrap_paragraphs(CLI::Formatter::make_description(app), width_);
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return wrap(option->get_description(), width_ - kNameColumns);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  std::ostringstream out;
  CLI::detail::format_help(out, command->get_display_name(true),
                           wrap(command->get_description(), width_ - kNameColumns), kNameColumns);
  return out.str();
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  return wrap_paragraphs(app->get_footer(), width_);
}

size_t help_width() {
  return is_terminal(stdout) ? std::clamp(num_columns(stdout), kLeastColumns, kHelpColumns) : kHelpColumns;
}

}  // namespace nibble::cli
