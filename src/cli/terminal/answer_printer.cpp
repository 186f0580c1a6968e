#include "cli/terminal/answer_printer.h"

#include "cli/terminal/terminal.h"
#include "core/console/output.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kThinking{"thinking..."};
constexpr std::string_view kEraseLine{"\r\x1b[K"};

}  // namespace

void AnswerPrinter::show(harmony::AnswerPart part, std::string_view text) {
  if (!is_open_ || part != part_) {
    close();
    open(part);
  }
  if (text.empty()) return;
  if (part == harmony::AnswerPart::kReasoning && options_.hides_reasoning) return;
  std::FILE* out = part == harmony::AnswerPart::kAnswer ? options_.answer : options_.reasoning;
  write_to(out, text);
  flush(out);
  at_line_start_ = text.back() == '\n';
}

void AnswerPrinter::finish() { close(); }

// Reasoning is dimmed on terminals; elsewhere it begins with "reasoning: ". Every call begins with "call: ".
void AnswerPrinter::open(harmony::AnswerPart part) {
  is_open_ = true;
  part_ = part;
  at_line_start_ = true;
  if (part == harmony::AnswerPart::kAnswer) return;
  std::FILE* out = options_.reasoning;
  const bool on_terminal = understands_escapes(out);
  write_to(out, dim_on(out));
  if (part == harmony::AnswerPart::kCall) write_to(out, "call: ");
  if (part == harmony::AnswerPart::kReasoning && options_.hides_reasoning)
    print_to(out, "{}{}", kThinking, on_terminal ? "" : "\n");
  if (part == harmony::AnswerPart::kReasoning && !options_.hides_reasoning && !on_terminal)
    write_to(out, "reasoning: ");
  at_line_start_ = false;
  flush(out);
}

void AnswerPrinter::close() {
  if (!is_open_) return;
  is_open_ = false;
  std::FILE* out = part_ == harmony::AnswerPart::kAnswer ? options_.answer : options_.reasoning;
  const bool was_folded = part_ == harmony::AnswerPart::kReasoning && options_.hides_reasoning;
  if (was_folded && understands_escapes(out)) write_to(out, kEraseLine);
  if (!was_folded && !at_line_start_) write_to(out, "\n");
  if (part_ != harmony::AnswerPart::kAnswer) write_to(out, dim_off(out));
  flush(out);
}

}  // namespace nibble::cli
