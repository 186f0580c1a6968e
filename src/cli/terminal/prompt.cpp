#include "cli/terminal/prompt.h"

#include "cli/terminal/terminal.h"
#include "core/console/output.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"

namespace nibble::cli {
namespace {

// Throws InputError if `text` is not UTF-8; the message names `origin`, where the text comes from. Returns
// the text, without the newlines at its end unless `keeps_newlines`: a shell or an editor adds a newline that
// is not part of the question.
std::string checked(std::string text, const std::string& origin, bool keeps_newlines) {
  if (const auto at = first_invalid_utf8(text))
    throw InputError("{} is not valid UTF-8 at byte {} (0x{:02X}); convert it, e.g. with iconv", origin, *at,
                     static_cast<unsigned char>(text[*at]));
  if (!keeps_newlines) text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

}  // namespace

std::string join_parts(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!joined.empty()) joined += "\n\n";
    joined += part;
  }
  return joined;
}

std::string read_prompt(const PromptSources& sources, bool is_raw) {
  std::vector<std::string> parts;
  if (sources.text) parts.push_back(checked(*sources.text, "the prompt", /*keeps_newlines=*/true));
  for (const std::string& file : sources.files) parts.push_back(checked(read_text_file(file), file, is_raw));
  if (parts.empty() && is_terminal(stdin))
    print_to(stderr, "Type the prompt; ctrl-D on a line of its own ends it.\n");
  if (parts.empty() || has_input()) parts.push_back(checked(read_input(), "standard input", is_raw));
  std::string prompt = join_parts(parts);
  if (prompt.empty()) throw InputError("the prompt is empty: give one with -p, with -f or on stdin");
  return prompt;
}

}  // namespace nibble::cli
